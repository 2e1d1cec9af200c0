/* Shared by the files of parse.h. */
#ifndef IMAGE_PARSE_INTERNAL_H
#define IMAGE_PARSE_INTERNAL_H

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <sys/types.h>

#include "image/parse.h"

enum { PARSE_PIECE = 64 << 10 };

void parse_free(struct archive **a); /* for _cleanup_ */

/* Emits one regular file whose content is the archive's current entry, of at most `max` bytes. */
int parse_emit(struct archive *a, const char *path, int64_t size, int64_t mtime, uint64_t max,
	struct tree_sink *to, struct error *e);

/* Counts a file and its bytes; ERROR_BAD_IMAGE beyond the limits of parse.h. */
struct parse_count {
	uint64_t files, bytes;
};
int parse_count(struct parse_count *c, int64_t size, struct error *e);

int parse_tar(int fd, bool content, struct tree_sink *to, struct error *e);
int parse_archive(int fd, const char *folder, struct tree_sink *to, struct error *e);
int parse_deb(int fd, struct tree_sink *to, struct error *e);
int parse_kernel(int fd, struct tree_sink *to, struct error *e);
int parse_module(int fd, struct tree_sink *to, struct error *e);
int parse_document(int fd, struct tree_sink *to, struct error *e);

#endif
