/* The stream in which mayfly-unpack, in its jail, reports the files of an archive. Both sides come
 * from the same build, but a hostile archive may have taken over the writer. So the reader accepts
 * only what an archive could contain: entries that tree.h allows, clean names, bounded lengths, and
 * no more content than announced.
 *
 * A stream is entries, then one end or one error. Content comes in pieces after its entry. */
#ifndef IMAGE_UNPACK_WIRE_H
#define IMAGE_UNPACK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/tree.h"

enum {
	WIRE_PIECE_MAX = 64 << 10,
	WIRE_TEXT_MAX = 300, /* of an error's message */
};

/* --- writing --- */

struct wire_writer {
	struct tree_sink sink; /* its add() only */
	int fd;
	size_t used;
	uint8_t data[2 * WIRE_PIECE_MAX];
};

void wire_writer_init(struct wire_writer *w, int fd);

/* Ends the stream: r = 0, or the error that ended the work. Returns 0 or -errno. */
int wire_finish(struct wire_writer *w, int r, const struct error *why);

/* --- reading --- */

/* Reads at most n bytes: their number, 0 at the end, or -errno with e filled. */
typedef ssize_t (*wire_read_fn)(void *opaque, void *data, size_t n, struct error *e);

struct wire_reader {
	wire_read_fn read;
	void *opaque;
	struct error *e; /* of the call in progress */
	size_t at, end;
	uint8_t data[WIRE_PIECE_MAX];
	char path[TREE_PATH_MAX], symlink[TREE_PATH_MAX], hardlink[TREE_PATH_MAX];
	struct tree_xattr xattrs[TREE_XATTRS_MAX];
	uint8_t attributes[TREE_XATTRS_MAX * (TREE_XATTR_BYTES_MAX + TREE_XATTR_NAME_MAX + 1)];
	bool in_content;
	uint32_t piece; /* bytes of it still to come */
	uint64_t left;	/* bytes of content that may still come */
};

void wire_reader_init(struct wire_reader *r, wire_read_fn read, void *opaque);

/* Hands all entries to the sink. Returns 0 after the end of the stream. The writer's error becomes
 * e: ERROR_BAD_IMAGE, ERROR_LIMIT, ERROR_NO_SPACE, ERROR_HOST or ERROR_INTERNAL. A stream that
 * breaks the rules, or ends early, is ERROR_BAD_IMAGE with -EPROTO. */
int wire_receive(struct wire_reader *r, struct tree_sink *to, struct error *e);

#endif
