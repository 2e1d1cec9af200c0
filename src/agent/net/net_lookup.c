#include "agent/net/net_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef SOL_IP
#define SOL_IP 0
#endif

enum { BACKLOG = 1024, TCP_KEY = 0, UDP_KEY = 1 };

static int local_map = -1;

static int bpf(unsigned command, union bpf_attr *a)
{
	int r = (int)syscall(SYS_bpf, command, a, sizeof(*a));

	return r < 0 ? -errno : r;
}

static uint64_t address_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* --- the sockets --- */

static int open_socket(int type)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
		.sin_port = htons(NET_RELAY_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) < 0 ||
		bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	if (type == SOCK_STREAM ? listen(fd, BACKLOG) < 0
				: setsockopt(fd, SOL_IP, IP_RECVORIGDSTADDR, &one, sizeof(one)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* --- maps --- */

static int make_map(unsigned type, unsigned value_size, unsigned entries)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_type = type;
	a.key_size = 4;
	a.value_size = value_size;
	a.max_entries = entries;
	return bpf(BPF_MAP_CREATE, &a);
}

static int map_call(unsigned command, int map, const void *key, void *value)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_fd = (uint32_t)map;
	a.key = address_of(key);
	a.value = address_of(value);
	return bpf(command, &a);
}

static int put_socket(int map, uint32_t key, int fd)
{
	uint64_t value = (uint64_t)fd;

	return map_call(BPF_MAP_UPDATE_ELEM, map, &key, &value);
}

void net_lookup_set_local(struct in_addr address, bool local)
{
	uint8_t value = 1;

	(void)map_call(local ? BPF_MAP_UPDATE_ELEM : BPF_MAP_DELETE_ELEM, local_map,
		&address.s_addr, &value); /* full, or there was none: see the header */
}

bool net_lookup_is_local(struct in_addr address)
{
	uint8_t value;

	return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET ||
	       map_call(BPF_MAP_LOOKUP_ELEM, local_map, &address.s_addr, &value) == 0;
}

/* --- the program --- */

#define INSN(op, d, s, o, i)                                                                       \
	(struct bpf_insn)                                                                          \
	{                                                                                          \
		.code = (op), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)               \
	}
#define FIELD(reg, name)                                                                           \
	INSN(BPF_LDX | BPF_MEM | BPF_W, reg, 6, offsetof(struct bpf_sk_lookup, name), 0)
#define MOVE(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define SET(d, i)  INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define STORE(s)   INSN(BPF_STX | BPF_MEM | BPF_W, 10, s, -4, 0)
#define MAP(d, map)                                                                                \
	INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, map), INSN(0, 0, 0, 0, 0)
#define KEY(d)		  MOVE(d, 10), INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, -4)
#define CALL(f)		  INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define PASS		  SHRT_MAX /* a jump to the end; patched */
#define PASS_IF(op, d, i) INSN(BPF_JMP | (op) | BPF_K, d, 0, PASS, i)

/* Leaves alone what is not IPv4, and what goes to loopback or to one of the guest's own addresses.
 * Everything else goes to the socket of its protocol. 127 is the first byte of an address in
 * network order. */
static int load_program(int sockets)
{
	struct bpf_insn p[] = {
		MOVE(6, 1),
		FIELD(2, family),
		PASS_IF(BPF_JNE, 2, AF_INET),
		FIELD(2, local_ip4),
		MOVE(3, 2),
		INSN(BPF_ALU64 | BPF_AND | BPF_K, 3, 0, 0, 0xff),
		PASS_IF(BPF_JEQ, 3, IN_LOOPBACKNET),
		STORE(2),
		MAP(1, local_map),
		KEY(2),
		CALL(BPF_FUNC_map_lookup_elem),
		PASS_IF(BPF_JNE, 0, 0),
		SET(7, TCP_KEY),
		FIELD(2, protocol),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 1, IPPROTO_TCP),
		SET(7, UDP_KEY),
		STORE(7),
		MAP(1, sockets),
		KEY(2),
		CALL(BPF_FUNC_map_lookup_elem),
		PASS_IF(BPF_JEQ, 0, 0),
		MOVE(8, 0),
		MOVE(1, 6),
		MOVE(2, 8),
		SET(3, 0),
		CALL(BPF_FUNC_sk_assign),
		MOVE(1, 8),
		CALL(BPF_FUNC_sk_release),
		SET(0, SK_PASS),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	const int n = (int)ARRAY_SIZE(p);
	union bpf_attr a;

	for (int i = 0; i < n; i++)
		if (p[i].off == PASS)
			p[i].off = (int16_t)(n - 2 - i - 1);
	memset(&a, 0, sizeof(a));
	a.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
	a.expected_attach_type = BPF_SK_LOOKUP;
	a.insns = address_of(p);
	a.insn_cnt = (uint32_t)n;
	a.license = address_of("Apache-2.0");
	return bpf(BPF_PROG_LOAD, &a);
}

static int attach(int program)
{
	_cleanup_close_ int ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	union bpf_attr a;

	if (ns < 0)
		return -errno;
	memset(&a, 0, sizeof(a));
	a.link_create.prog_fd = (uint32_t)program;
	a.link_create.target_fd = (uint32_t)ns;
	a.link_create.attach_type = BPF_SK_LOOKUP;
	return bpf(BPF_LINK_CREATE, &a); /* the link lives as long as its descriptor */
}

int net_lookup_open(int *ret_tcp, int *ret_udp)
{
	_cleanup_close_ int tcp = open_socket(SOCK_STREAM), udp = open_socket(SOCK_DGRAM);
	_cleanup_close_ int sockets = make_map(BPF_MAP_TYPE_SOCKMAP, 8, 2), program = -1;
	int r = tcp < 0 ? tcp : udp < 0 ? udp : sockets;

	local_map = make_map(BPF_MAP_TYPE_HASH, 1, NET_LOCAL_MAX);
	if (r >= 0)
		r = local_map;
	if (r >= 0)
		r = put_socket(sockets, TCP_KEY, tcp);
	if (r >= 0)
		r = put_socket(sockets, UDP_KEY, udp);
	if (r >= 0)
		r = program = load_program(sockets);
	if (r >= 0)
		r = attach(program);
	if (r < 0)
		return r;
	*ret_tcp = TAKE_FD(tcp);
	*ret_udp = TAKE_FD(udp);
	return 0;
}
