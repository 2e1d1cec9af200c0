/* Runs the steps of a Dockerfile's stages one after the other in one agent, for
 * test_build_steps:
 *
 *   build-tool SOCKET DIR [NAME=VALUE | id=NAME,env=VARIABLE]...
 *
 * The second form is a secret.
 *
 * SOCKET is that of `mayfly-agent --test-listen`. --from names files of the agent's own root.
 * Prints what steps write, and last the settings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "build/secrets.h"
#include "build/stage.h"
#include "dockerfile/source.h"

static struct machine *machine;
static struct files_context context;
static struct files_machine own;

static int get_machine(void *opaque, struct machine **ret, struct error *e)
{
	*ret = machine;
	return 0;
}

static int get_files(void *opaque, const char *from, struct files **ret, struct error *e)
{
	*ret = *from ? &own.files : &context.files;
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

static int run(const struct dockerfile *d, const struct vars *args,
	const struct build_secrets *secrets, struct error *e)
{
	static const struct vars none = {NULL, 0};
	struct stage s = {.file = d,
		.global = &none,
		.build_args = args,
		.secrets = secrets,
		.ops = {get_machine, get_files, NULL, source_key, output, note, NULL}};
	int r = stage_state_init(&s.state);

	for (size_t k = 0; k < d->stage_count && r == 0; k++)
		for (size_t i = 0; i < d->stages[k].steps.count && r == 0; i++)
			r = stage_step(&s, &d->stages[k].steps.items[i], e);
	if (r == 0)
		(void)printf("user %s\nworkdir %s\nentry %s\ncommand %s\n", s.state.user,
			s.state.workdir, s.state.entry, s.state.command);
	stage_state_done(&s.state);
	vars_done(&s.args);
	return r;
}

static int connect_agent(const char *path, struct error *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct agent_conn *c;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%s", path);
	if (agent_open(fd, 0, &c, e) < 0)
		return -EIO;
	machine = machine_of_agent(c);
	files_machine_init(&own, machine);
	return 0;
}

int main(int argc, char **argv)
{
	struct vars args = {NULL, 0};
	struct option_list words = {.count = 0};
	struct build_secrets secrets = {.count = 0};
	struct ignore ignore = {.count = 0};
	struct dockerfile d;
	struct error e = {0};
	char *text = NULL, *patterns = NULL;
	size_t n = 0, m = 0;
	int dir = open(argc > 2 ? argv[2] : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	for (int i = 3; i < argc; i++)
		if (strncmp(argv[i], "id=", 3) == 0)
			words.items[words.count++] = argv[i];
		else
			(void)vars_set_entry(&args, argv[i]);
	r = file_read(dir, "Dockerfile", SOURCE_BYTES_MAX, &text, &n);
	if (file_read(dir, ".dockerignore", IGNORE_BYTES_MAX, &patterns, &m) == 0)
		r = ignore_parse(patterns, m, &ignore, &e);
	files_context_init(&context, dir, false, &ignore);
	if (r == 0)
		r = connect_agent(argv[1], &e);
	if (r == 0)
		r = dockerfile_parse(text, n, &d, &e);
	if (r == 0)
		r = build_secrets_read(&words, &secrets, &e);
	if (r == 0)
		r = run(&d, &args, &secrets, &e);
	build_secrets_done(&secrets);
	if (r < 0)
		(void)fprintf(stderr, "%s\n", e.message);
	return r < 0;
}
