/* Runs the stages of a Dockerfile, each in a root of its own, for test_dockerfiles:
 *
 *   stages-tool DIR CONTEXT [NAME=VALUE]...
 *
 * Before stage N it prints "stage N BASE", where BASE is the number of a stage or a name, and waits
 * for a line: then DIR/N/socket is that of `mayfly-agent --test-listen`, in the stage's root.
 * --from names a stage. Prints what steps write. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "build/stage.h"
#include "dockerfile/source.h"

static struct dockerfile file;
static struct files_context context;
static struct machine *machines[DOCKERFILE_STAGES_MAX];
static struct files_machine roots[DOCKERFILE_STAGES_MAX];
static struct stage_state states[DOCKERFILE_STAGES_MAX];
static const char *stages_dir;
static size_t at;

static int get_machine(void *opaque, struct machine **ret, struct error *e)
{
	*ret = machines[at];
	return 0;
}

static int get_files(void *opaque, const char *from, struct files **ret, struct error *e)
{
	int k = *from ? dockerfile_find_stage(&file, from, at) : 0;

	if (k < 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no stage %s", from);
	*ret = *from ? &roots[k].files : &context.files;
	return 0;
}

static int source_key(void *opaque, const char *from, char ret[STEP_KEY_BYTES], struct error *e)
{
	(void)snprintf(ret, STEP_KEY_BYTES, "%s", from);
	return 0;
}

static int output(void *opaque, const void *data, size_t n)
{
	return fwrite(data, 1, n, stdout) == n ? 0 : -EIO;
}

static void note(void *opaque, unsigned line, const char *text)
{
	(void)printf("note %u: %s\n", line, text);
}

static int connect_agent(struct error *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r = -1;
	struct agent_conn *c;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%zu/socket", stages_dir, at);
	for (unsigned i = 0; i < 2000 && r < 0; i++) { /* the file is there before it listens */
		r = connect(fd, (struct sockaddr *)&a, sizeof(a));
		if (r < 0 && errno == ECONNREFUSED)
			(void)usleep(10000);
	}
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%s", a.sun_path);
	if (agent_open(fd, 0, &c, e) < 0)
		return -EIO;
	machines[at] = machine_of_agent(c);
	files_machine_init(&roots[at], machines[at]);
	return 0;
}

/* An agent for stage `at`, and what its base has set. */
static int begin_stage(struct error *e)
{
	const char *base = file.stages[at].base;
	int k = dockerfile_find_stage(&file, base, at), r;
	char line[16];

	r = k >= 0 ? stage_state_copy(&states[k], &states[at]) : stage_state_init(&states[at]);
	if (r == 0 && k < 0)
		states[at].image_fd = open("/", O_PATH | O_CLOEXEC); /* which is handed on */
	if (r < 0)
		return r;
	if (k >= 0)
		(void)printf("stage %zu %d\n", at, k);
	else
		(void)printf("stage %zu %s\n", at, base);
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return error_set(e, ERROR_HOST, EPIPE, "nobody made a root");
	return connect_agent(e);
}

static int run_stage(struct stage *s, struct error *e)
{
	const struct dockerfile_steps *steps = &file.stages[at].steps;
	int r = 0;

	for (size_t i = 0; i < steps->count && r == 0; i++)
		r = stage_step(s, &steps->items[i], e);
	return r;
}

static const char *get_global(void *opaque, const char *name)
{
	return vars_get(opaque, name);
}

/* ARGs before the first FROM. */
static int take_global(const struct vars *args, struct vars *ret, struct error *e)
{
	static const struct vars none = {NULL, 0};
	const struct expand_scope scope = {get_global, ret, file.escape};
	int r = 0;

	for (size_t i = 0; i < file.args.count && r == 0; i++)
		r = stage_take_arg(ret, &file.args.items[i], &scope, args, &none, e);
	return r;
}

static int run(const struct vars *args, struct error *e)
{
	struct vars global = {NULL, 0};
	int r = take_global(args, &global, e);

	for (at = 0; at < file.stage_count && r == 0; at++) {
		struct stage s = {.file = &file,
			.global = &global,
			.build_args = args,
			.ops = {get_machine, get_files, NULL, source_key, output, note, NULL}};

		r = begin_stage(e);
		s.state = states[at];
		r = r ? r : run_stage(&s, e);
		states[at] = s.state;
		vars_done(&s.args);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct vars args = {NULL, 0};
	struct ignore ignore = {.count = 0};
	struct error e = {0};
	char *text = NULL, *patterns = NULL;
	size_t n = 0, m = 0;
	int dir, r;

	if (argc < 3) {
		(void)fputs("usage: stages-tool DIR CONTEXT [NAME=VALUE]...\n", stderr);
		return 2;
	}
	stages_dir = argv[1];
	dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 3; i < argc; i++)
		(void)vars_set_entry(&args, argv[i]);
	r = file_read(dir, "Dockerfile", SOURCE_BYTES_MAX, &text, &n);
	if (file_read(dir, ".dockerignore", IGNORE_BYTES_MAX, &patterns, &m) == 0)
		r = ignore_parse(patterns, m, &ignore, &e);
	files_context_init(&context, dir, false, &ignore);
	if (r == 0)
		r = dockerfile_parse(text, n, &file, &e);
	if (r == 0)
		r = run(&args, &e);
	if (r < 0)
		(void)fprintf(stderr, "%s\n", e.message);
	return r < 0;
}
