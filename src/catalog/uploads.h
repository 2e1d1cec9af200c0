/* Files for COPY that clients upload before a build, by a hash that the client chooses: what a
 * hash stands for is the key's own business, so each key has its own files. They lie in the home's
 * directory `uploads`, as <key id>.<hash>.
 *
 * Who may upload one is said by a signature in the address, which ends after UPLOAD_VALID_S and
 * with this process. The file that was not used for the longest time makes room for another, unless
 * a build that waits or runs needs it. For the loop's thread, but where it says otherwise. */
#ifndef CATALOG_UPLOADS_H
#define CATALOG_UPLOADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

#define UPLOAD_BYTES_MAX      (UINT64_C(1) << 30) /* of a file */
#define UPLOADS_KEY_BYTES_MAX (UINT64_C(8) << 30)
#define UPLOADS_ALL_BYTES_MAX (UINT64_C(32) << 30)

enum {
	UPLOAD_HASH_BYTES = 65, /* 64 of 0-9 a-f, NUL */
	UPLOAD_SIGNATURE_BYTES = 65,
	UPLOAD_VALID_S = 3600,
	UPLOAD_LAST_S = 3600,	/* all of an upload */
	UPLOADS_KEY_MAX = 2048, /* files of a key */
	UPLOADS_KEY_OPEN = 8,	/* that come in at the same time, of a key */
	UPLOADS_OPEN = 64,	/* of all */
};

struct uploads;

/* reserve_bytes: of the disk, to leave free. */
int uploads_open(int home_fd, uint64_t reserve_bytes, struct uploads **ret, struct error *e);
void uploads_close(struct uploads *u); /* NULL is fine */

bool upload_is_hash(const char *s);

/* Whether the file is there. It counts as used. */
bool uploads_have(struct uploads *u, const char *key_id, const char *hash);

/* A build needs the file: it makes room for no other until it is released. The same file may be
 * held several times. Does nothing where it is not there. */
void uploads_hold(struct uploads *u, const char *key_id, const char *hash);
void uploads_release(struct uploads *u, const char *key_id, const char *hash);

/* The key was revoked: its files go, and those that come in are refused at their end. */
void uploads_forget_key(struct uploads *u, const char *key_id);
/* The same for all keys that are gone, after a start. */
void uploads_forget_keys(
	struct uploads *u, bool (*is_gone)(void *opaque, const char *key_id), void *opaque);

/* The name of a file in the directory. */
enum { UPLOAD_NAME_BYTES = STORE_UUID_BYTES + UPLOAD_HASH_BYTES };
/* A file for one build only has such a name instead of a hash: nothing finds it but its name, and
 * it goes with uploads_drop(), or when the daemon starts. -EIO. */
int upload_once(char ret[UPLOAD_HASH_BYTES]);
void upload_name(const char *key_id, const char *hash, char ret[UPLOAD_NAME_BYTES]);

/* Signs an upload of that file for a template. 0 or -EIO. */
int uploads_sign(const struct uploads *u, const char *template_id, const char *hash,
	uint64_t expires_s, char ret[UPLOAD_SIGNATURE_BYTES]);

/* Removes one; it need not be there. */
void uploads_drop(struct uploads *u, const char *key_id, const char *hash);

/* --- one that comes in --- */

struct upload;

/* ERROR_LIMIT, ERROR_TOO_MANY, ERROR_NO_SPACE. */
int upload_begin(struct uploads *u, const char *key_id, const char *hash, uint64_t bytes,
	struct upload **ret, struct error *e);
int upload_fd(const struct upload *p); /* to write to; borrowed */

/* Whether the written file is a tar archive, plain or with gzip. Any thread; reads the file, and
 * syncs it. */
int upload_check(const struct upload *p, struct error *e);
/* Puts it in place. Frees p in any case. ERROR_NO_SPACE: builds hold too much; ERROR_FORBIDDEN: the
 * key was revoked. */
int upload_commit(struct upload *p, struct error *e);
void upload_abort(struct upload *p); /* NULL is fine */

#endif
