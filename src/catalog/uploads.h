/* Files for COPY, which clients upload before a build. A file is known by a hash that the client
 * chooses. Nobody checks the hash, so each key has its own files. They are stored in the home's
 * directory `uploads` as <key id>.<hash>.
 *
 * A signature in the URL allows an upload. It is valid for UPLOAD_VALID_S, and not beyond this
 * process. If there is no room for a file, the least recently used ones are removed, except those
 * that a waiting or running build holds. Functions belong to the loop's thread unless they say
 * otherwise. */
#ifndef CATALOG_UPLOADS_H
#define CATALOG_UPLOADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

#define UPLOAD_BYTES_MAX      (UINT64_C(1) << 30) /* of one file */
#define UPLOADS_KEY_BYTES_MAX (UINT64_C(8) << 30)
#define UPLOADS_ALL_BYTES_MAX (UINT64_C(32) << 30)

enum {
	UPLOAD_HASH_BYTES = 65, /* 64 of 0-9 a-f, NUL */
	UPLOAD_SIGNATURE_BYTES = 65,
	UPLOAD_VALID_S = 3600,
	UPLOAD_LAST_S = 3600,	/* an upload may last that long */
	UPLOADS_KEY_MAX = 2048, /* files of a key */
	UPLOADS_KEY_OPEN = 8,	/* uploads of a key at the same time */
	UPLOADS_OPEN = 64,	/* of all keys */
};

struct uploads;

/* reserve_bytes: how much of the disk to leave free. */
int uploads_open(int home_fd, uint64_t reserve_bytes, struct uploads **ret, struct error *e);
void uploads_close(struct uploads *u); /* NULL is fine */

bool upload_is_hash(const char *s);

/* Whether the file is there. This counts as a use. */
bool uploads_have(struct uploads *u, const char *key_id, const char *hash);

/* Keeps the file for a build until uploads_release(). A file may be held several times. Does
 * nothing if the file is not there. */
void uploads_hold(struct uploads *u, const char *key_id, const char *hash);
void uploads_release(struct uploads *u, const char *key_id, const char *hash);

/* Removes the files of a revoked key. Uploads that are in progress fail at their end. */
void uploads_forget_key(struct uploads *u, const char *key_id);
/* After a start: removes the files of all keys for which is_gone() returns true. */
void uploads_forget_keys(
	struct uploads *u, bool (*is_gone)(void *opaque, const char *key_id), void *opaque);

/* Writes the name of a file in the directory. */
enum { UPLOAD_NAME_BYTES = STORE_UUID_BYTES + UPLOAD_HASH_BYTES };
/* Makes a random name in place of a hash, for a file that only one build uses. uploads_drop()
 * removes the file, or the next start of the daemon. Returns 0 or -EIO. */
int upload_once(char ret[UPLOAD_HASH_BYTES]);
void upload_name(const char *key_id, const char *hash, char ret[UPLOAD_NAME_BYTES]);

/* Signs an upload of a file for a template. Returns 0 or -EIO. */
int uploads_sign(const struct uploads *u, const char *template_id, const char *hash,
	uint64_t expires_s, char ret[UPLOAD_SIGNATURE_BYTES]);

/* Removes a file if it is there. */
void uploads_drop(struct uploads *u, const char *key_id, const char *hash);

/* --- an upload in progress --- */

struct upload;

/* ERROR_LIMIT, ERROR_TOO_MANY, ERROR_NO_SPACE. */
int upload_begin(struct uploads *u, const char *key_id, const char *hash, uint64_t bytes,
	struct upload **ret, struct error *e);
int upload_fd(const struct upload *p); /* for writing; borrowed */

/* Checks that the written file is a tar archive, plain or with gzip. Reads all of it and syncs it.
 * May run in any thread. */
int upload_check(const struct upload *p, struct error *e);
/* Puts the file in place. Frees p in any case. Fails with ERROR_NO_SPACE if builds hold too much,
 * and with ERROR_FORBIDDEN if the key was revoked. */
int upload_commit(struct upload *p, struct error *e);
void upload_abort(struct upload *p); /* NULL is fine */

#endif
