/* Snapshots: saved states of sandboxes, to make other sandboxes from or to go back to. The files of
 * a snapshot are in a directory named by its id (sandbox/stack.h). Its row is written after the
 * directory is complete and durable, and removed before the directory. So a snapshot with a row is
 * usable.
 *
 * A snapshot belongs to a key. It may have a name. The snapshots of a key that have the same name
 * are like builds of one template, and its tags (tags.h) name some of them. A snapshot without a
 * name is the only build of a template of its own. */
#ifndef STORE_SNAPSHOTS_H
#define STORE_SNAPSHOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum {
	STORE_SNAPSHOT_ID_BYTES = 21, /* 20 of a-z 0-9, NUL */
	STORE_SNAPSHOT_NAME_MAX = 128,
	STORE_SNAPSHOT_TEMPLATE_BYTES = STORE_UUID_BYTES + 1 + STORE_SNAPSHOT_NAME_MAX,
	STORE_SNAPSHOTS_LIST_MAX = 1000,
};

struct store_snapshot {
	char id[STORE_SNAPSHOT_ID_BYTES];
	char key_id[STORE_UUID_BYTES];
	char name[STORE_SNAPSHOT_NAME_MAX + 1]; /* "": none; [a-z0-9_-] */
	char sandbox_id[STORE_ID_MAX + 1];	/* the sandbox it was taken of */
	char template_id[STORE_NAME_MAX + 1], template_alias[STORE_NAME_MAX + 1];
	uint64_t created_ns;
	uint32_t cpus;
	uint64_t memory_bytes, disk_bytes;
	uint64_t own_bytes; /* bytes on disk, without files that it shares with its ancestors */
	bool memory;	    /* false: only its disks, so sandboxes made from it boot */
};

/* What tags.h calls the template that it is a build of. */
void store_snapshot_template(
	const struct store_snapshot *sn, char ret[STORE_SNAPSHOT_TEMPLATE_BYTES]);

/* Gives it that tag of its name, which then no longer names an older snapshot. Synced. ERROR_USAGE
 * -EINVAL for a malformed name or tag. ERROR_TOO_MANY as store_tag_assign(). */
int store_snapshot_insert(
	struct store *s, const struct store_snapshot *sn, const char *tag, struct error *e);

/* Finds the snapshot with that id, or the one that the tag of that name means. key_id NULL: of any
 * key; then the newest with that name. ERROR_NOT_FOUND. */
int store_snapshot_find(struct store *s, const char *key_id, const char *word, const char *tag,
	struct store_snapshot *ret, struct error *e);

struct store_snapshot_filter {
	const char *key_id;	/* NULL: of all keys */
	const char *sandbox_id; /* NULL: of all sandboxes */
	const char *name;	/* NULL: any */
	const char *tag;	/* those that it names; NULL: any */
	uint32_t limit;		/* 1-STORE_SNAPSHOTS_LIST_MAX */
	const char *token;	/* from the previous page; NULL or "": the first page */
};

/* Lists one page, newest first. The callback may write. ret_next is empty on the last page. */
int store_snapshot_list(struct store *s, const struct store_snapshot_filter *f,
	int (*each)(void *arg, const struct store_snapshot *sn), void *arg,
	char ret_next[STORE_PAGE_TOKEN_BYTES], struct error *e);

/* With its tags. Synced. ERROR_NOT_FOUND. */
int store_snapshot_delete(struct store *s, const char *id, struct error *e);

#endif
