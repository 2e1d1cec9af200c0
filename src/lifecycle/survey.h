/* Lists what a state of a sandbox contains, by asking its agent: processes, files below a
 * directory, contents of single files. The state is a running sandbox or a snapshot. For a
 * snapshot, the survey makes a microVM and stops its processes as soon as it runs. Nobody else can
 * find that microVM, and it ends with the survey.
 *
 *	survey_new()		creates a survey
 *	survey_make()		of a snapshot: makes its microVM, then starts by itself
 *	survey_start()		of a running sandbox
 *	(callbacks)		node for each file while not paused, then files_end; or failed,
 *				which is the last
 *	survey_read()		once files have begun: the digest of one file, one at a time
 *	survey_free()		ends everything; allowed within a callback
 *
 * No function of this header calls back. For the daemon's loop only. All answers are the guest's
 * word. */
#ifndef LIFECYCLE_SURVEY_H
#define LIFECYCLE_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "lifecycle/instance_make.h"

enum {
	SURVEY_TASK_BYTES_MAX = 2 * 1024 * 1024, /* of all commands together */
	SURVEY_DIGEST_BYTES = 32,		 /* SHA-256 */
};

struct survey;

struct survey_ops {
	void (*node)(struct survey *s, const struct agent_node *n, void *arg);
	/* All files were told; the tasks are complete. missing: this state has no such
	 * directory. */
	void (*files_end)(struct survey *s, bool missing, void *arg);
	/* NULL: the file cannot be read (any more). */
	void (*digest)(struct survey *s, const uint8_t *digest, void *arg);
	void (*failed)(struct survey *s, const struct error *why, void *arg);
};

struct survey_task {
	uint32_t pid;
	uint64_t start;
	const char *command;
};

/* path: the directory, absolute; borrowed, like ops and arg. Returns NULL when out of memory. */
struct survey *survey_new(
	struct fleet *f, const char *path, const struct survey_ops *ops, void *arg);
void survey_free(struct survey *s); /* NULL is fine */

/* Surveys a running sandbox. */
int survey_start(struct survey *s, struct instance *i, struct error *e);
/* Surveys a snapshot: the order names it and has `hold` and `look` set. */
int survey_make(struct survey *s, const struct instance_order *o, struct error *e);

/* While paused, no node comes. */
void survey_pause(struct survey *s);
void survey_resume(struct survey *s);

/* Digests the first `bytes` of a file; ops->digest follows. */
int survey_read(struct survey *s, const char *path, uint64_t bytes, struct error *e);

/* The processes by pid; valid from files_end until survey_free(). */
const struct survey_task *survey_tasks(const struct survey *s, size_t *ret_count);

#endif
