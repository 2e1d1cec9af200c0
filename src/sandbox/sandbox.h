/* One sandbox's life: made from a template's snapshot, given its identity, used through its agent,
 * destroyed.
 *
 *	sandbox_create()	the microVM's process runs; the agent's connection is open and HELLO
 *				and IDENTITY are queued on it
 *	sandbox_wait_ready()	the guest is who it shall be, its clock right; requests may be
 *				queued
 *	sandbox_next_event()	in a poll loop over sandbox_poll(); also brings a sandbox to
 *				readiness
 *	sandbox_destroy()	nothing is left: process, directory, disk delta
 *
 * A microVM that ends, panics, never answers or runs on a host too slow for it comes as an error of
 * sandbox_next_event(), never as a hang. If this process dies, the microVM ends by itself. */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "sandbox/sandbox_dir.h"
#include "image/home.h"
#include "image/progress.h"
#include "sandbox/agent_client.h"

enum {
	SANDBOX_READY_S = 60, /* default time to become ready */
	SANDBOX_CPUS_MAX = 4,
	SANDBOX_MEMORY_MB_MIN = 128,
	SANDBOX_MEMORY_MB_MAX = 4096,
	SANDBOX_DISK_MB_MAX = 10 * 1024,
	SANDBOX_ROOM_MB = 16, /* disk space below which none is made */
	SANDBOX_POLL_FDS = 2,
};

struct sandbox_sizes {
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes;
};

/* What a sandbox is made of in place of its template: a snapshot's files (layers.h). */
struct sandbox_origin {
	int fd;	     /* of its directory; borrowed */
	bool memory; /* false: its disks only, to be booted from */
};

struct sandbox_options {
	const char *id; /* of one that comes back; NULL: a new one */
	const char *template;
	const struct sandbox_origin *origin; /* or NULL; the sizes below are the origin's then */
	unsigned cpus;			     /* 0: the template's */
	uint64_t memory_bytes;		     /* 0: the template's; whole MB */
	uint64_t disk_bytes;		     /* of the root file system; 0: the template's */
	const char *const *env; /* "NAME=VALUE" in addition to the template's, or NULL */
	unsigned env_count;
	const char *command;		 /* for the record, or NULL */
	json_t *metadata;		 /* an object for the record, borrowed, or NULL */
	bool hidden;			 /* in no list: see sandbox_record */
	bool boot;			 /* boot instead of restoring */
	bool paused;			 /* only for backend.h: made in advance */
	const char *kernel, *modules;	 /* of a boot; NULL: the template's */
	uint64_t ready_timeout_ns;	 /* 0: SANDBOX_READY_S */
	const struct progress *progress; /* of a snapshot that has to be made first, or NULL */
};

struct sandbox;

/* Checks limits and the template's files before anything is made. Both home and dirs must outlive
 * the sandbox. */
int sandbox_create(const struct home *home, const struct sandbox_dirs *dirs,
	const struct sandbox_options *o, struct sandbox **ret, struct error *e);

/* Ends the microVM and removes everything of it. NULL is fine. Waits for its process, a second at
 * most if that does not answer. */
void sandbox_destroy(struct sandbox *s);

const char *sandbox_id(const struct sandbox *s);
struct agent_conn *sandbox_agent(struct sandbox *s);
bool sandbox_is_ready(const struct sandbox *s);
/* From the call of sandbox_create to readiness, 0 before. */
uint64_t sandbox_ready_ns(const struct sandbox *s);

/* Blocks until the sandbox is ready or cannot become so. */
int sandbox_wait_ready(struct sandbox *s, struct error *e);

/* 1 and an event of the agent that is the caller's; 0: nothing for now; -errno: the sandbox is over
 * or unusable, e says why. What an event points to is valid until the next call on the agent. */
int sandbox_next_event(struct sandbox *s, struct agent_event *ev, struct error *e);

/* To be used instead of sandbox_next_event while the caller cannot take events: looks at the
 * microVM only. 0, or -errno when it is over. */
int sandbox_check(struct sandbox *s, struct error *e);

/* Fills the descriptors to poll; hold: the caller cannot take events of the agent now. */
void sandbox_poll(const struct sandbox *s, bool hold, struct pollfd fds[SANDBOX_POLL_FDS]);
/* CLOCK_MONOTONIC time by which sandbox_next_event must be called again, UINT64_MAX: none. */
uint64_t sandbox_deadline_ns(const struct sandbox *s);

/* Prints the last lines of the boot log, indented; for people, after a failure. */
void sandbox_print_log(const struct sandbox *s, unsigned lines, FILE *f);

#endif
