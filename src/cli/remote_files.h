/* Files of a sandbox of the daemon, over envd's surface. Everything blocks. One connection serves
 * all calls in turn; after a failure it is opened anew. */
#ifndef CLI_REMOTE_FILES_H
#define CLI_REMOTE_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/remote.h"

/* Told of every piece that was passed; other than 0 ends the transfer and is returned. */
typedef int (*remote_files_progress)(void *arg, size_t bytes);

struct remote_files {
	const struct remote *remote;
	struct client *client; /* or NULL */
	remote_files_progress progress;
	void *arg;
};

void remote_files_close(struct remote_files *f);

/* What an entry (EntryInfo of the protocol) says. */
enum remote_kind { REMOTE_FILE, REMOTE_DIRECTORY, REMOTE_OTHER };
enum remote_kind remote_entry_kind(const json_t *entry); /* links count as what they lead to */
uint64_t remote_entry_size(const json_t *entry);
const char *remote_entry_text(const json_t *entry, const char *name); /* "" when missing */

/* *ret: the entry of a path, a new reference. ERROR_NOT_FOUND. */
int remote_files_stat(struct remote_files *f, const char *path, json_t **ret, struct error *e);
/* The entries of a directory, without those of directories in it. */
int remote_files_list(struct remote_files *f, const char *path, json_t **ret, struct error *e);
/* With parents; one that is there is fine. */
int remote_files_mkdir(struct remote_files *f, const char *path, struct error *e);

/* A file's bytes to a descriptor. */
int remote_files_get(struct remote_files *f, const char *path, int fd, struct error *e);
/* A descriptor's bytes, up to its end, to a file, which is replaced; parents are made. length:
 * CLIENT_CHUNKED where it is not known. A file that gets shorter meanwhile is an error. */
int remote_files_put(struct remote_files *f, const char *path, int fd, int64_t length,
	unsigned mode, struct error *e);

#endif
