/* What the test (test_escape.c) tells the program in the jail (escape.c) about the host. */
#ifndef TESTS_JAIL_ESCAPE_H
#define TESTS_JAIL_ESCAPE_H

#include <stdint.h>

enum { ESCAPE_SECRET_BYTES = 32 };
#define ESCAPE_SECRET "the host's secret, not a guest's"

/* The descriptors of the jailed process: what mayfly-vmm has of a sandbox. */
enum {
	ESCAPE_DELTA_FD = 3, /* a disk's delta, for reading and writing */
	ESCAPE_BASE_FD,	     /* an image, for reading */
	ESCAPE_VSOCK_FD,     /* a listening Unix socket */
	ESCAPE_OWNER_FD,     /* a connected one */
	ESCAPE_CANARIES_FD,  /* struct escape_canaries, for reading */
	ESCAPE_FDS
};

struct escape_canaries {
	char secret[128];    /* path of a file with ESCAPE_SECRET */
	char directory[128]; /* of that and more */
	char socket[100];    /* path of a listening Unix socket */
	char abstract[64];   /* name of an abstract one, without its NUL */
	uint16_t port;	     /* of TCP on loopback */
	int process;	     /* pid on the host */
	int neighbour;	     /* the same, of a process in another jail */
	uint64_t memory;     /* address of ESCAPE_SECRET in both */
	int shm_key, msg_key;
	int key; /* serial number of a key of the kernel */
};

/* What an attempt may do by itself, because only the filter of system calls stands before it. */
enum { ESCAPE_ANY = 0, ESCAPE_NEEDS_FILTER = 1, ESCAPE_NEEDS_FULL = 2 };

/* Exit statuses of an attempt. */
enum { ESCAPE_REFUSED = 0, ESCAPE_REACHED = 10, ESCAPE_NO_SUCH = 11 };

#endif
