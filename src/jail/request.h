/* The messages between a process and its launcher, over a SEQPACKET socket. Both come from the same
 * build, so the messages have no version.
 *
 *	launcher -> client   one jail_reply when it is ready
 *	client -> launcher   a request: one message, its descriptors beside it
 *	child -> client      JAIL_BORN, just before it becomes the program. The kernel adds its pid
 *	launcher -> client   JAIL_DONE: the program runs, or not
 *
 * A child holds the launcher's end of the socket until it becomes the program. So if the socket
 * ends without JAIL_BORN, no child has become the program. */
#ifndef JAIL_REQUEST_H
#define JAIL_REQUEST_H

#include <stddef.h>
#include <stdint.h>

enum {
	JAIL_REQUEST_MAX = 32768, /* bytes */
	JAIL_STRINGS_MAX = 96,	  /* arguments, and variables of the environment, together */
	JAIL_FDS_MAX = 96,	  /* that the child keeps */
	JAIL_FDS_SENT_MAX = JAIL_FDS_MAX + 3,
};

enum jail_reply_kind { JAIL_READY = 1, JAIL_BORN, JAIL_DONE };

struct jail_reply {
	uint32_t what; /* enum jail_reply_kind */
	int32_t err;   /* 0 or -errno */
	uint32_t step; /* READY: enum space_step, or SPACE_STEPS_ for what comes after */
	uint32_t kind; /* READY: enum jail_kind */
	int32_t pid;   /* DONE: the child's, 0 if there was none; its parent waits for it */
};

/* Descriptors are sent in this order: those that the child keeps as 3, 4 and so on, the program,
 * the child's standard error, the child's cgroup if it has one. */
struct jail_request {
	unsigned fd_count;		  /* that the child keeps */
	unsigned has_cgroup;		  /* 0 or 1 */
	char *argv[JAIL_STRINGS_MAX + 1]; /* both end with NULL */
	char *env[JAIL_STRINGS_MAX + 1];
};

/* Encodes into data of JAIL_REQUEST_MAX bytes. Returns the bytes used, or -E2BIG. */
int jail_request_encode(const struct jail_request *r, char *data);

/* Decodes, with sent descriptors beside it. The strings stay in data, of n bytes. -EPROTO. */
int jail_request_decode(char *data, size_t n, unsigned sent, struct jail_request *ret);

#endif
