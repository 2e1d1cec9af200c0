/* Files of a daemon's sandbox, over the envd surface. Every function blocks. One connection serves
 * all calls in turn, and is reopened after a failure. */
#ifndef CLI_REMOTE_FILES_H
#define CLI_REMOTE_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/remote/remote.h"

/* Called for every piece transferred. A non-zero result ends the transfer and is returned. */
typedef int (*remote_files_progress)(void *arg, size_t bytes);

struct remote_files {
	const struct remote *remote;
	struct client *client; /* or NULL */
	remote_files_progress progress;
	void *arg;
};

void remote_files_close(struct remote_files *f);

/* Fields of an entry (the protocol's EntryInfo). */
enum remote_kind { REMOTE_FILE, REMOTE_DIRECTORY, REMOTE_OTHER };
enum remote_kind remote_entry_kind(const json_t *entry); /* a link counts as its target */
uint64_t remote_entry_size(const json_t *entry);
const char *remote_entry_text(const json_t *entry, const char *name); /* "" if missing */

/* *ret: the entry of a path, a new reference. Fails with ERROR_NOT_FOUND. */
int remote_files_stat(struct remote_files *f, const char *path, json_t **ret, struct error *e);
/* The entries of a directory, not recursively. */
int remote_files_list(struct remote_files *f, const char *path, json_t **ret, struct error *e);
/* Creates a directory and its parents; an existing one is fine. */
int remote_files_mkdir(struct remote_files *f, const char *path, struct error *e);

/* Copies a file's bytes to a descriptor. */
int remote_files_get(struct remote_files *f, const char *path, int fd, struct error *e);
/* Copies a descriptor's bytes, up to its end, to a file. Replaces an existing file and creates
 * parents. length: CLIENT_CHUNKED if unknown. A source that gets shorter meanwhile is an error. */
int remote_files_put(struct remote_files *f, const char *path, int fd, int64_t length,
	unsigned mode, struct error *e);

#endif
