/* HELLO and IDENTITY: who the guest is. IDENTITY is on the path of every create. So each given
 * field costs one system call, the name some more, and the others cost nothing. */
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "disk.h"
#include "env_files.h"
#include "guest.h"
#include "helper.h"
#include "hold.h"
#include "host_clock.h"
#include "host_keys.h"
#include "hosts.h"
#include "requests.h"
#include "users.h"

#ifndef MAYFLY_VERSION
#define MAYFLY_VERSION "0.1.0"
#endif

enum {
	IDENTITY_FIELDS_KNOWN = (1 << AGENT_ID_FIELDS) - 1,
	OLDEST_VERSION = 1,
};

/* What may have changed since the boot: a build brings a shell into an image. */
static uint32_t present_facts(void)
{
	return (host_clock_ns() ? AGENT_FACT_HOST_CLOCK : 0) |
	       (access("/bin/sh", X_OK) == 0 ? AGENT_FACT_SHELL : 0);
}

void request_hello(struct conn *c, const struct agent_frame *f)
{
	/* boot_id stays "": the kernel generates it at the first read. If only sandboxes read it,
	 * that happens after the template's snapshot, and each gets its own. */
	struct agent_hello_reply reply = {
		.version_min = OLDEST_VERSION,
		.version_max = AGENT_PROTOCOL_VERSION,
		.state = guest.state,
		.facts = guest.facts | present_facts(),
		.agent_version = MAYFLY_VERSION,
		.boot_id = "",
		.root_fs = guest.root_fs,
		.problem = guest.problem,
	};
	struct agent_hello m;

	if (!conn_decode(c, f, &m))
		return;
	if (m.version_min <= AGENT_PROTOCOL_VERSION && m.version_max >= OLDEST_VERSION)
		reply.version = m.version_max < AGENT_PROTOCOL_VERSION ? m.version_max
								       : AGENT_PROTOCOL_VERSION;
	conn_send(c, AGENT_HELLO_REPLY, &reply);
}

static int set_clock(const struct agent_identity *m)
{
	if (!guest.init)
		return 0; /* under test: do not touch the machine's clock */
	return host_clock_set(m->realtime_ns);
}

/* The entropy is credited, so the pool mixes it in at once. Then the generators of all CPUs must
 * draw from the pool before their next output. */
static int add_entropy(const struct agent_identity *m)
{
	struct {
		struct rand_pool_info info;
		uint8_t data[AGENT_ENTROPY_MAX];
	} pool;

	if (!guest.init)
		return 0; /* under test: nor the machine's entropy */
	pool.info.entropy_count = (int)m->entropy_bytes * 8;
	pool.info.buf_size = (int)m->entropy_bytes;
	memcpy(&pool.info + 1, m->entropy, m->entropy_bytes);
	if (ioctl(guest.random_fd, RNDADDENTROPY, &pool) < 0 ||
		ioctl(guest.random_fd, RNDRESEEDCRNG) < 0)
		return errno;
	explicit_bzero(&pool, sizeof(pool));
	return 0;
}

/* An image need not have the file, nor a root that can be written: then the name does not
 * resolve. */
static void set_hosts(const char *from, const char *to)
{
	int fd = open("/etc/hosts", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return;
	(void)hosts_rename(fd, from, to); /* likewise */
	(void)close(fd); /* a failing write would be the disk's problem, not ours */
}

static int set_hostname(const struct agent_identity *m)
{
	char before[65] = "";

	if (!guest.init)
		return 0;
	(void)gethostname(before, sizeof(before)); /* else no line is replaced */
	if (sethostname(m->hostname, strlen(m->hostname)) < 0)
		return errno;
	set_hosts(before, m->hostname);
	return 0;
}

/* Uses the host name, which must be set first. */
static int set_host_keys(void)
{
	int fd = open("/etc/ssh", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct host_keys keys;

	if (fd < 0)
		return 0; /* no ssh in this image */
	r = host_keys_renew(fd, &keys);
	(void)close(fd); /* only read */
	if (keys.changed)
		host_keys_reload("/run/sshd.pid");
	if (keys.problem)
		console("new ssh host keys: %s; the old ones are removed", strerror(keys.problem));
	return -r;
}

static int set_machine_id(const struct agent_identity *m)
{
	char line[34];
	int fd = guest.machine_id_fd, r;

	if (strspn(m->machine_id, "0123456789abcdef") != 32 || m->machine_id[32])
		return EINVAL;
	if (!guest.init)
		return 0;
	r = set_host_keys();
	if (r)
		return r;
	(void)snprintf(line, sizeof(line), "%s\n", m->machine_id); /* fits */
	if (fd >= 0)
		return -fd_pwrite_full(fd, line, 33, 0);
	fd = open("/etc/machine-id", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0)
		return errno;
	r = fd_write_full(fd, line, 33);
	(void)close(fd); /* a failing write would be the disk's problem, not ours */
	return -r;
}

static int set_env(const struct agent_identity *m)
{
	uint8_t *copy = malloc(m->env.packed_bytes + 1);

	if (!copy)
		return ENOMEM;
	memcpy(copy, m->env.packed, m->env.packed_bytes);
	free((void *)(uintptr_t)guest.env.packed);
	guest.env = m->env;
	guest.env.packed = copy;
	return 0;
}

static int set_user(const struct agent_identity *m)
{
	strcpy(guest.user, m->user); /* bounded by the decoder, like the next */
	return 0;
}

static int set_workdir(const struct agent_identity *m)
{
	strcpy(guest.workdir, m->workdir);
	return 0;
}

/* Publishes the sandbox's variables for programs that survive a restore or fork, mainly the code
 * interpreter. The default user can read the file. A new file tells them that the sandbox has
 * changed. */
static int publish_env(void)
{
	static const char path[] = "/run/mayfly/env", temporary[] = "/run/mayfly/.env";
	struct user user;
	int fd, r;

	if (!guest.init)
		return 0;
	if (mkdir("/run/mayfly", 0755) < 0 && errno != EEXIST)
		return errno;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	r = -fd_write_full(fd, guest.env.packed, guest.env.packed_bytes);
	if (r == 0 && user_find("", &user) == 0 && fchown(fd, user.uid, user.gid) < 0)
		r = errno;
	(void)close(fd); /* the file is in memory, so close cannot fail */
	if (r == 0 && rename(temporary, path) < 0)
		r = errno;
	return r ? r : -env_files_write(ENV_FILES_DIR, &guest.env);
}

static void report(struct agent_identity_reply *reply, unsigned bit, int err)
{
	reply->errs[bit] = (uint32_t)err;
	if (err)
		reply->failed |= 1U << bit;
}

struct grow {
	struct agent_identity_reply reply;
	uint64_t bytes;
};

static void grow_disk(int fd, const void *arg)
{
	struct grow g = *(const struct grow *)arg;

	report(&g.reply, __builtin_ctz(AGENT_ID_DISK), -disk_grow(g.bytes));
	helper_reply(fd, AGENT_IDENTITY_REPLY, &g.reply);
}

void request_identity(struct conn *c, const struct agent_frame *f)
{
	static int (*const setters[])(const struct agent_identity *m) = {set_clock, add_entropy,
		set_hostname, set_machine_id, set_env, set_user, set_workdir};
	struct agent_identity m;
	struct grow g = {0};

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_IDENTITY, m.fields, IDENTITY_FIELDS_KNOWN))
		return;
	g.reply.attempted = m.fields;
	for (unsigned i = 0; i < sizeof(setters) / sizeof(setters[0]); i++)
		if (m.fields & (1U << i))
			report(&g.reply, i, setters[i](&m));
	if (m.fields & (AGENT_ID_ENTROPY | AGENT_ID_ENV))
		report(&g.reply,
			__builtin_ctz(m.fields & AGENT_ID_ENV ? AGENT_ID_ENV : AGENT_ID_ENTROPY),
			publish_env());
	if (m.fields & ~(uint32_t)AGENT_ID_CLOCK) /* a guest that only hears the time may be held */
		hold_end(); /* processes resume only now, with everything set */
	g.bytes = m.disk_bytes;
	if (m.fields & AGENT_ID_DISK)
		helper_run(c, AGENT_IDENTITY, grow_disk, &g);
	else
		conn_send(c, AGENT_IDENTITY_REPLY, &g.reply);
}
