/* Image recipes: "key = value" lines that say what goes into an image.
 *
 *   # comment
 *   name = base
 *   source = debian            debian | busybox | tar | directory
 *   suite = bookworm           debian only
 *   packages = git curl        debian only; may be repeated
 *   npm = deno@2.9.6           debian only: npm packages, into /usr/local/lib/node_modules
 *   maven = g:a:1.0 a/lib /opt debian only: a Maven artifact, a folder in its archive, and the
 *                              directory of the image that gets the folder's content; may be
 *                              repeated
 *   programs = mayfly-x        debian only: Mayfly's own programs, into /usr/local/bin
 *   files = kernels /usr/lib   debian only: a path, relative to the recipe, and the directory of
 *                              the image to copy it to; may be repeated
 *   run = ln -s a /b           debian only: a shell command that root runs in the image, after all
 *                              of the above; may be repeated
 *   path = rootfs.tar          tar and directory only; relative to the recipe
 *   env = LANG=C.UTF-8         may be repeated
 *   description, user, workdir, start, ready, warm, cpus, memory, disk
 *
 * Unknown keys, repeated keys and unusable values are errors that name the line. */
#ifndef IMAGE_RECIPE_H
#define IMAGE_RECIPE_H

#include <stddef.h>

#include "base/error.h"
#include "image/config.h"

enum {
	RECIPE_BYTES_MAX = 64 << 10,
	RECIPE_PACKAGES_MAX = 512,
	RECIPE_LIST_MAX = 32,
	RECIPE_ARTIFACTS_MAX = 16
};

enum image_source {
	IMAGE_SOURCE_NONE,
	IMAGE_SOURCE_DEBIAN,
	IMAGE_SOURCE_BUSYBOX,
	IMAGE_SOURCE_TAR,
	IMAGE_SOURCE_DIRECTORY,
};

struct recipe_list {
	char **items;
	size_t count;
};

/* An archive in a Maven repository, and the part of it that is wanted. */
struct recipe_artifact {
	char *artifact;	 /* "group:name:version[:packaging[:classifier]]"; all three are owned */
	char *folder;	 /* in the archive */
	char *directory; /* in the image */
};

struct recipe {
	char *name; /* owned strings; NULL when not given */
	enum image_source source;
	char *suite;
	char *path;
	char **packages; /* package_count of them */
	size_t package_count;
	struct recipe_list npm, programs;
	struct recipe_list files; /* path on the host, directory in the image, path, ... */
	struct recipe_artifact maven[RECIPE_ARTIFACTS_MAX];
	size_t maven_count;
	struct recipe_list run; /* shell commands */
	struct image_config config;
};

/* Parses text. file is its name for messages. ERROR_USAGE with "file:line: ...". */
int recipe_parse(
	const char *text, size_t len, const char *file, struct recipe *ret, struct error *e);

/* Reads and parses a file. Relative paths become relative to the file's directory. */
int recipe_load(const char *file, struct recipe *ret, struct error *e);

/* Adds Debian packages to a recipe; names are separated by spaces or commas. ERROR_USAGE for
 * another source, an impossible name, or too many. */
int recipe_add_packages(struct recipe *r, const char *names, struct error *e);

void recipe_done(struct recipe *r);

/* "debian", "busybox", "tar", "directory". */
const char *image_source_name(enum image_source source);

#endif
