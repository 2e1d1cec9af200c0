/* The options of a new sandbox: its sizes, what it is made of, what it is told. */
#ifndef SANDBOX_OPTIONS_H
#define SANDBOX_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/progress.h"

enum {
	SANDBOX_READY_S = 60, /* default time to become ready */
	SANDBOX_CPUS_MAX = 4,
	SANDBOX_MEMORY_MB_MIN = 128,
	SANDBOX_MEMORY_MB_MAX = 4096,
	SANDBOX_DISK_MB_MAX = 10 * 1024,
	SANDBOX_ROOM_MB = 16, /* disk space below which no sandbox is made */
};

struct sandbox_sizes {
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes;
};

/* A snapshot's files (stack.h) that a sandbox is made of instead of its template. */
struct sandbox_origin {
	int fd;	     /* of its directory; borrowed */
	bool memory; /* false: only its disks, to boot from */
};

struct sandbox_options {
	const char *id; /* of a sandbox that comes back; NULL: a new one */
	const char *template;
	const struct sandbox_origin *origin; /* or NULL; if set, the sizes below are the origin's */
	unsigned cpus;			     /* 0: the template's */
	uint64_t memory_bytes;		     /* 0: the template's; whole MB */
	uint64_t disk_bytes;		     /* of the root file system; 0: the template's */
	const char *const *env; /* "NAME=VALUE" in addition to the template's, or NULL */
	unsigned env_count;
	int egress_fd; /* the VMM's end of its egress channel (egress_spawn.h), borrowed; 0: none */
	const char *command;		 /* for the record, or NULL */
	json_t *metadata;		 /* an object for the record, borrowed, or NULL */
	bool hidden;			 /* appears in no list: see sandbox_record */
	bool boot;			 /* boot instead of restoring */
	bool paused;			 /* only for backend.h: made in advance */
	const char *kernel, *modules;	 /* for a boot; NULL: the template's */
	uint64_t ready_timeout_ns;	 /* 0: SANDBOX_READY_S */
	const struct progress *progress; /* while a snapshot has to be made first, or NULL */
};

#endif
