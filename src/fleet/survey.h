/* What there is in one state of a sandbox, asked of its agent: the processes, the files below a
 * directory, the contents of single files. The state is a running sandbox as it is, or a snapshot:
 * then a microVM is made of it whose processes are stopped as soon as it runs, which nobody else
 * can find, and which ends with the survey.
 *
 *	survey_new()		a snapshot's microVM begins to be made
 *	survey_start()		of a running sandbox; the other starts by itself
 *	(callbacks)		node for each file while not paused, then files_end; or failed, the
 *				last
 *	survey_read()		after the files began: the digest of one file, one at a time
 *	survey_free()		ends everything, also from within a callback; those come until then,
 *				but never from within a function of this header
 *
 * The daemon's loop only. What is told is the guest's own word. */
#ifndef DAEMON_SURVEY_H
#define DAEMON_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/instance_make.h"

enum {
	SURVEY_TASK_BYTES_MAX = 2 * 1024 * 1024, /* of all commands */
	SURVEY_DIGEST_BYTES = 32,		 /* SHA-256 */
};

struct survey;

struct survey_ops {
	void (*node)(struct survey *s, const struct agent_node *n, void *arg);
	/* missing: there is no such directory in this state. The tasks are complete. */
	void (*files_end)(struct survey *s, bool missing, void *arg);
	/* NULL: it cannot be read (any more). */
	void (*digest)(struct survey *s, const uint8_t *digest, void *arg);
	void (*failed)(struct survey *s, const struct error *why, void *arg);
};

struct survey_task {
	uint32_t pid;
	uint64_t start;
	const char *command;
};

/* path: absolute, of the directory; borrowed as arg and ops. NULL: out of memory. */
struct survey *survey_new(
	struct fleet *f, const char *path, const struct survey_ops *ops, void *arg);
void survey_free(struct survey *s); /* NULL is fine */

/* Of a running sandbox. */
int survey_start(struct survey *s, struct instance *i, struct error *e);
/* Of a snapshot: the order says of what, with `hold` and `look`. */
int survey_make(struct survey *s, const struct instance_order *o, struct error *e);

/* Between the two no node comes. */
void survey_pause(struct survey *s);
void survey_resume(struct survey *s);

/* Of the first `bytes` of a file; ops->digest comes. */
int survey_read(struct survey *s, const char *path, uint64_t bytes, struct error *e);

/* The processes, by pid; valid from files_end until survey_free(). */
const struct survey_task *survey_tasks(const struct survey *s, size_t *ret_count);

#endif
