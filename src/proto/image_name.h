/* Names of images that clients give: of registries only, never of files of this host. */
#ifndef PROTO_IMAGE_NAME_H
#define PROTO_IMAGE_NAME_H

#include <stdbool.h>

enum { IMAGE_NAME_MAX = 512 };

/* Whether it can be REGISTRY/NAME:TAG or NAME:TAG, and nothing else. */
bool image_name_is_plain(const char *image);
bool image_name_has_registry(const char *image);

/* Whether it is in the operator's registry: HOST or HOST/PATH, or NULL. */
bool image_name_is_of(const char *image, const char *registry);

/* The name with a registry, and with a tag or a digest. registry: of names without, as above.
 * malloc'ed. */
char *image_name_whole(const char *image, const char *registry);

#endif
