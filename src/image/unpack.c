#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/unpack_wire.h"
#include "io/jailed.h"
#include "io/program.h"

enum { TIMEOUT_S = 7200 };

/* This process closes the program's ends once the program has them, so that it sees the end of
 * file. */
struct pipes {
	int out[2], err[2];
};

static int make_pipes(struct pipes *p)
{
	*p = (struct pipes){{-1, -1}, {-1, -1}};
	return pipe2(p->out, O_CLOEXEC) < 0 || pipe2(p->err, O_CLOEXEC) < 0 ? -errno : 0;
}

static void close_pipes(struct pipes *p)
{
	int *const all[] = {&p->out[0], &p->out[1], &p->err[0], &p->err[1]};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		cleanup_close_p(all[i]);
}

static int launch(const struct parse_options *o, const struct pipes *p, pid_t *ret, struct error *e)
{
	char *argv[] = {(char *)"mayfly-unpack", (char *)(uintptr_t)parse_job_name(o->job),
		(char *)(uintptr_t)o->folder, NULL};
	char *env[] = {NULL};
	int fds[] = {o->fd, p->out[1]};
	char path[PATH_MAX];
	int r = program_path("mayfly-unpack", path, sizeof(path), e);

	if (r < 0)
		return r;
	return jailed_start(&(struct launcher_start){.path = path,
				    .argv = argv,
				    .env = env,
				    .fds = fds,
				    .fd_count = ARRAY_SIZE(fds),
				    .log_fd = p->err[1]},
		ret, NULL, e);
}

static int start(const struct parse_options *o, struct child *c, struct error *e)
{
	struct pipes p;
	pid_t pid = 0;
	int r = make_pipes(&p);

	r = r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "pipe") : launch(o, &p, &pid, e);
	if (r == 0) {
		r = child_adopt(c,
			&(struct child_adoption){.name = "mayfly-unpack",
				.pid = pid,
				.out_fd = p.out[0],
				.err_fd = p.err[0],
				.timeout_ns = TIMEOUT_S * NS_PER_S},
			e);
		p.out[0] = p.err[0] = -1; /* taken over, also on failure */
	}
	close_pipes(&p);
	return r;
}

static ssize_t read_child(void *opaque, void *data, size_t n, struct error *e)
{
	return child_read(opaque, data, n, e);
}

/* A process that was killed, for instance by its filter, ends the stream early. Then its exit
 * status says more than the stream's error. */
static int finish(struct child *c, int r, const struct error *why, struct error *e)
{
	struct error end = {0};

	if (r == -EPROTO && child_finish(c, &end) < 0) {
		if (e && e->code == ERROR_NONE)
			*e = end;
		return r;
	}
	if (r == 0)
		return child_finish(c, e);
	if (e && e->code == ERROR_NONE)
		*e = *why;
	return r;
}

static int receive(struct child *c, struct tree_sink *to, struct error *e)
{
	_cleanup_free_ struct wire_reader *reader = malloc(sizeof(*reader));
	struct error why = {0};
	int r;

	if (!reader)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	wire_reader_init(reader, read_child, c);
	r = wire_receive(reader, to, &why);
	return finish(c, r, &why, e);
}

static int run(
	const struct parse_options *o, struct child *beside, struct tree_sink *to, struct error *e)
{
	_cleanup_(child_done) struct child c = CHILD_INIT;
	int r = start(o, &c, e);

	c.beside = beside;
	return r < 0 ? r : receive(&c, to, e);
}

int unpack(const struct parse_options *o, struct tree_sink *to, struct error *e)
{
	return run(o, NULL, to, e);
}

int unpack_output(struct child *c, enum parse_job job, struct tree_sink *to, struct error *e)
{
	_cleanup_close_ int fd = child_take_output(c);
	struct parse_options o = {.job = job, .fd = fd};

	return run(&o, c, to, e);
}

int unpack_path(unpack_fn fn, const char *path, struct parse_options o, struct tree_sink *to,
	struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, errno, "cannot read %s", path);
	o.fd = fd;
	r = fn(&o, to, e);
	if (r < 0)
		error_prefix(e, "%s", path);
	return r;
}
