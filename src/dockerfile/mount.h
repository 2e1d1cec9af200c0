/* Parses the value of `RUN --mount=`: key=value pairs with commas between them. */
#ifndef DOCKERFILE_MOUNT_H
#define DOCKERFILE_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { MOUNT_TEXT_MAX = 1024 };

enum mount_type { MOUNT_BIND, MOUNT_CACHE, MOUNT_TMPFS, MOUNT_SECRET, MOUNT_SSH };

/* How steps that run at the same time share a cache. */
enum mount_sharing { MOUNT_SHARED, MOUNT_LOCKED, MOUNT_PRIVATE };

struct mount {
	enum mount_type type;
	enum mount_sharing sharing;
	char target[MOUNT_TEXT_MAX]; /* "" only for a secret: then /run/secrets/<id>, or env */
	char source[MOUNT_TEXT_MAX];
	char from
		[MOUNT_TEXT_MAX]; /* a stage or image; "": the build's directory, or an empty one */
	char id[MOUNT_TEXT_MAX];  /* of a cache (default: the target) or secret */
	char env[MOUNT_TEXT_MAX]; /* the variable for a secret */
	bool read_only, required;
	uint32_t mode, uid, gid;
	bool has_mode;
};

/* Fails with ERROR_USAGE; the message names the key. */
int mount_parse(const char *text, struct mount *ret, struct error *e);

#endif
