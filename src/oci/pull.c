#include "oci/pull.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "io/program.h"
#include "oci/pull_wire.h"

enum { REPORT_MS = 250, SILENCE_S = 120, WAITS_S = 900 };
/* mayfly-pull sends something every second; the registry's bytes may take longer */

static const char name[] = "mayfly-pull";

void oci_pull_init(struct oci_pull *p, const struct oci_reference *r,
	const struct oci_credentials *c, const struct progress *progress)
{
	*p = (struct oci_pull){.reference = r,
		.credentials = c,
		.progress = progress,
		.child = CHILD_INIT,
		.ask_fd = -1};
}

void oci_pull_done(struct oci_pull *p)
{
	cleanup_close_p(&p->ask_fd);
	p->ask_fd = -1;
	child_done(&p->child);
}

/* --- what it is told --- */

/* Without SIGPIPE, if it has ended. */
static int tell(const struct oci_pull *p, const void *data, size_t n)
{
	for (const char *at = data; n > 0;) {
		ssize_t k = fd_send(p->ask_fd, at, n);

		if (k < 0 && errno != EINTR)
			return -errno;
		at += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return 0;
}

static int introduce(const struct oci_pull *p)
{
	struct pull_start start = {.reference = *p->reference, .credentials = *p->credentials};
	int r;

	if (p->reach)
		start.reach = *p->reach;
	r = tell(p, &start, sizeof(start));
	oci_credentials_done(&start.credentials);
	return r;
}

static int start(struct oci_pull *p, struct error *e)
{
	static const struct io_workshop workshop = {.user = "nobody", .network = true};
	const char *argv[] = {p->path, NULL};
	struct child_options o = {
		.argv = argv, .cwd = "/", .read_stdout = true, .workshop = &workshop};
	int pair[2], r = program_path(name, p->path, sizeof(p->path), e);

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot start %s", name);
	o.stdin_fd = pair[1];
	p->ask_fd = pair[0];
	r = child_start(&p->child, &o, e);
	(void)close(pair[1]); /* the child's */
	if (r < 0)
		return r;
	p->child.name = name;
	r = introduce(p);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot speak with %s", name) : 0;
}

/* --- what it says --- */

static int misbehaves(struct error *e)
{
	return error_set(
		e, ERROR_HOST, EPROTO, "%s says what it may not, and was ended: try again", name);
}

/* Each read has the full time limit again. */
static int hear(struct oci_pull *p, void *data, size_t n, struct error *e)
{
	int r;

	p->child.deadline_ns = clock_monotonic_ns() + SILENCE_S * NS_PER_S;
	for (char *at = data; n > 0;) {
		ssize_t k = child_read(&p->child, at, n, e);

		if (k < 0)
			return (int)k;
		if (k == 0) {
			r = child_finish(&p->child, e);
			return r < 0 ? r : misbehaves(e);
		}
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

static int report(
	struct oci_pull *p, const struct oci_pull_request *q, uint64_t got, struct error *e)
{
	char line[160], size[16];
	uint64_t now = clock_monotonic_ns(), max = q->bytes_max;
	int r;

	if (now - p->reported_ns < REPORT_MS * NS_PER_MS)
		return 0;
	p->reported_ns = now;
	(void)snprintf(
		line, sizeof(line), "%.80s, %s", q->version, str_format_bytes(got, size)); /* cut */
	r = progress_report(p->progress, "download the image",
		max ? (int)(got * 100 / max) : PROGRESS_NO_PERCENT, line);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
}

static int take_piece(struct oci_pull *p, const struct oci_pull_request *q, size_t n, uint64_t *got,
	struct error *e)
{
	char piece[PULL_PIECE_MAX];
	int r;

	if (n > sizeof(piece) || n > q->bytes_max - *got)
		return misbehaves(e);
	r = hear(p, piece, n, e);
	*got += n;
	return r < 0 ? r : q->take(q->opaque, piece, n, e);
}

/* Replaces characters of its message that could harm a terminal. */
static int take_end(struct oci_pull *p, size_t n, struct error *e)
{
	struct error end;
	int r = n == sizeof(end) ? hear(p, &end, n, e) : misbehaves(e);

	if (r < 0)
		return r;
	if (end.code == ERROR_NONE)
		return 0;
	if ((unsigned)end.code >= ERROR_CODES_ || end.err < 0 || end.err >= 4096 ||
		!memchr(end.message, '\0', sizeof(end.message)))
		return misbehaves(e);
	for (char *c = end.message; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			*c = ' ';
	return error_set(e, end.code, end.err, "%s", end.message);
}

static int check_wait(uint64_t since_ns, struct error *e)
{
	return clock_monotonic_ns() - since_ns < WAITS_S * NS_PER_S
		       ? 0
		       : error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				 "the registry sends nothing for %d s: try again later", WAITS_S);
}

/* *ret_done: the answer is complete, and the process can be asked again. */
static int receive(
	struct oci_pull *p, const struct oci_pull_request *q, bool *ret_done, struct error *e)
{
	uint64_t got = 0, last = clock_monotonic_ns();
	int r;

	for (;;) {
		struct pull_head head;

		r = hear(p, &head, sizeof(head), e);
		if (r == 0 && head.kind == PULL_END) {
			*ret_done = true;
			return take_end(p, head.bytes, e);
		}
		if (r == 0 && head.kind == PULL_DATA) {
			r = head.bytes ? take_piece(p, q, head.bytes, &got, e) : misbehaves(e);
			last = clock_monotonic_ns();
		} else if (r == 0) {
			r = head.kind == PULL_WAITS && head.bytes == 0 ? check_wait(last, e)
								       : misbehaves(e);
		}
		if (r == 0)
			r = report(p, q, got, e);
		if (r < 0)
			return r;
	}
}

int oci_pull_get(struct oci_pull *p, const struct oci_pull_request *q, struct error *e)
{
	struct pull_ask ask = {.manifest = q->manifest, .bytes_max = q->bytes_max};
	bool done = false;
	int r = p->child.pid > 0 ? 0 : start(p, e);

	(void)snprintf(ask.version, sizeof(ask.version), "%s", q->version);	  /* fits: a tag */
	(void)snprintf(ask.path, sizeof(ask.path), "%s", q->path ? q->path : ""); /* url.c */
	if (r == 0 && tell(p, &ask, sizeof(ask)) < 0)
		r = 0; /* it has ended: its messages tell why */
	if (r == 0)
		r = receive(p, q, &done, e);
	if (!done)
		oci_pull_done(p);
	return r;
}
