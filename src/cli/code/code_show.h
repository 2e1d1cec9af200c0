/* Shows a cell's output and results, for people or (--json) for programs.
 *
 * Output goes unchanged to standard output and error. Text results go to standard output,
 * exceptions to standard error. Images go to files, whose names are printed on standard error.
 * Nothing blocks: code_show_take() takes one line of the interpreter, and the next one only when
 * nothing is pending. */
#ifndef CLI_CODE_SHOW_H
#define CLI_CODE_SHOW_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/remote/sink.h"

enum {
	CODE_LINE_MAX = 400 * 1024 * 1024, /* of the interpreter's lines: 64 MiB of text, escaped */
	CODE_JSON_MAX = 64 * 1024 * 1024,  /* of one document */
};

struct code_show_options {
	bool json;
	const char *directory; /* for images; NULL: here, or no files with --json */
	const char *stem;      /* their names are STEM-N.png and the like */
	uint64_t output_max;   /* bytes of a cell's output and results; 0: no limit */
};

struct code_show {
	struct code_show_options o;
	struct sink out, err;
	struct buf to_out, to_err; /* what the sinks have not taken yet */
	json_t *document;	   /* for --json */
	uint64_t bytes;		   /* of this cell so far */
	bool failed;		   /* the cell raised an exception */
	bool open_line;		   /* standard output is in the middle of a line */
	bool colours;		   /* standard error is a terminal */
};

/* Borrows the options' strings. */
int code_show_open(const struct code_show_options *o, struct code_show *ret, struct error *e);
void code_show_close(struct code_show *s);

/* Begins a cell. The document names its sandbox. */
void code_show_begin(struct code_show *s, const char *sandbox_id);
/* Returns 1 after the cell's last line, otherwise 0, or -errno. n is at most CODE_LINE_MAX. */
int code_show_take(struct code_show *s, const char *line, size_t n, struct error *e);
/* Ends a cell. With --json the document is now ready to be flushed. */
int code_show_end(struct code_show *s, struct error *e);

bool code_show_is_pending(const struct code_show *s);
/* Writes as much as possible. Returns 1 if the reader has gone. */
int code_show_flush(struct code_show *s, struct error *e);
struct pollfd code_show_poll(const struct code_show *s);

static inline bool code_show_failed(const struct code_show *s)
{
	return s->failed;
}

#endif
