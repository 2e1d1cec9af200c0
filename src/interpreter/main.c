/* mayfly-interpreter: the code interpreter of a guest, on port 49999 (docs/interpreter.md).
 *
 * One thread, one libuv loop: HTTP on one side (server.h), kernels on the other (kernel.h),
 * contexts between them (context.h). It needs no rights but those to run the kernels. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "interpreter/api.h"
#include "interpreter/context.h"

enum { PORT_DEFAULT = 49999 };

struct settings {
	const char *address;
	uint64_t port;
	struct option_list kernels;
	const char *cwd, *env_file;
	bool help;
};

static const struct option_spec options[] = {
	{"address", 'a', OPTION_STRING, "ADDRESS", "where to listen (0.0.0.0)",
		offsetof(struct settings, address), 0, 0, false},
	{"port", 'p', OPTION_NUMBER, "PORT", "where to listen (49999), 0: any",
		offsetof(struct settings, port), 0, 65535, false},
	{"kernels", 'k', OPTION_LIST, "DIRECTORY", "kernelspecs, before those of Jupyter",
		offsetof(struct settings, kernels), 0, 0, false},
	{"cwd", 'C', OPTION_STRING, "DIRECTORY", "of contexts that name none ($HOME)",
		offsetof(struct settings, cwd), 0, 0, false},
	{"env-file", 'e', OPTION_STRING, "FILE", "the sandbox's variables (/run/mayfly/env)",
		offsetof(struct settings, env_file), 0, 0, false},
	{"help", 'h', OPTION_HELP, NULL, "show this help", offsetof(struct settings, help), 0, 0,
		false},
	{0},
};

struct interpreter {
	uv_loop_t loop;
	uv_signal_t signals[2];
	struct server *server;
	struct channel_hub *hub;
	struct kernel_host host;
	struct contexts contexts;
	char run_dir[256];
};

/* Becomes a kernel that does not outlive this program; kernel.c starts kernels through this. */
static int exec_kernel(char **argv)
{
	pid_t parent = getppid();

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* known to every kernel */
	if (getppid() != parent)
		return 127;
	(void)execvp(argv[0], argv); /* returns only on failure */
	(void)fprintf(stderr, "mayfly-interpreter: %s: %s\n", argv[0], strerror(errno));
	return 127;
}

/* --- the end --- */

static void on_signal(uv_signal_t *signal, int number)
{
	struct interpreter *in = signal->data;

	while (in->contexts.first)
		context_remove(in->contexts.first);
	server_stop(in->server);
	channel_hub_stop(in->hub);
	for (size_t i = 0; i < ARRAY_SIZE(in->signals); i++)
		uv_close((uv_handle_t *)&in->signals[i], NULL);
}

static int watch_signals(struct interpreter *in)
{
	static const int numbers[] = {SIGTERM, SIGINT};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers) && r == 0; i++) {
		(void)uv_signal_init(&in->loop, &in->signals[i]); /* 0: the loop is good */
		in->signals[i].data = in;
		r = uv_signal_start(&in->signals[i], on_signal, numbers[i]);
	}
	return r;
}

/* --- the beginning --- */

static void load_specs(struct specs *specs, const struct settings *s)
{
	static const char *const usual[] = {
		"/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels"};

	for (unsigned i = 0; i < s->kernels.count; i++)
		specs_add_directory(specs, s->kernels.items[i]);
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		specs_add_directory(specs, usual[i]);
}

static void make_default(struct contexts *all, const char *language)
{
	struct error e = {0};

	if (!context_default(all, language, &e))
		log_warn("no default context for %s: %s", language, e.message);
}

static int begin(struct interpreter *in, const struct settings *s, struct error *e)
{
	unsigned port = (unsigned)s->port;
	const char *tmp = getenv("TMPDIR");
	int n;

	if (!tmp || !*tmp)
		tmp = "/tmp";
	n = snprintf(in->run_dir, sizeof(in->run_dir), "%s/mayfly-interpreter-XXXXXX", tmp);
	if ((size_t)n >= sizeof(in->run_dir) || !mkdtemp(in->run_dir)) {
		int err = (size_t)n >= sizeof(in->run_dir) ? ENAMETOOLONG : errno;

		*in->run_dir = '\0';
		return error_set_errno(
			e, ERROR_HOST, err, "cannot make a directory in %s (TMPDIR)", tmp);
	}
	/* libuv runs later handles first: the server takes its turn after the hub */
	in->server = server_new(&in->loop, s->address, port, api_handle, &in->contexts, &port, e);
	if (!in->server)
		return -EIO;
	in->hub = channel_hub_new(&in->loop);
	if (!in->hub || watch_signals(in) < 0)
		return error_set(e, ERROR_HOST, ENOMEM, "out of memory or descriptors");
	in->host = (struct kernel_host){.loop = &in->loop, .hub = in->hub, .run_dir = in->run_dir};
	if (getrandom(&in->host.ports_tried, sizeof(in->host.ports_tried), 0) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "no random numbers");
	in->contexts = (struct contexts){
		.loop = &in->loop, .host = &in->host, .cwd = s->cwd, .env.path = s->env_file};
	load_specs(&in->contexts.specs, s);
	make_default(&in->contexts, "python");
	make_default(&in->contexts, "javascript");
	(void)printf("mayfly-interpreter: listening on %s port %u\n", s->address, port);
	(void)fflush(stdout); /* a reader of the line notices the failure itself */
	return 0;
}

static int run(const struct settings *s, struct error *e)
{
	struct interpreter in = {0};
	int r = uv_loop_init(&in.loop);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot make an event loop");
	r = begin(&in, s, e);
	if (r == 0)
		(void)uv_run(&in.loop, UV_RUN_DEFAULT); /* until all handles are closed */
	if (*in.run_dir)
		(void)file_remove_tree(AT_FDCWD, in.run_dir);
	if (r < 0)
		return r; /* the process ends, and the half-built server with it */
	channel_hub_free(in.hub);
	server_free(in.server);
	specs_done(&in.contexts.specs);
	sandbox_env_done(&in.contexts.env);
	(void)uv_loop_close(&in.loop); /* nothing is left in it */
	return 0;
}

static const char *home(void)
{
	const char *s = getenv("HOME");

	return s && *s == '/' ? s : "/";
}

int main(int argc, char **argv)
{
	struct settings s = {.address = "0.0.0.0",
		.port = PORT_DEFAULT,
		.cwd = home(),
		.env_file = "/run/mayfly/env"};
	struct error e = {0};
	int rest = 0;

	if (argc > 2 && strcmp(argv[1], "--exec") == 0)
		return exec_kernel(argv + 2);
	log_open("mayfly-interpreter");
	(void)signal(SIGPIPE, SIG_IGN); /* a known signal */
	if (options_parse(options, argc, argv, &s, &rest, &e) == 0 && rest < argc)
		(void)error_set(&e, ERROR_USAGE, EINVAL, "unexpected '%s'", argv[rest]);
	if (s.help) {
		(void)printf("usage: mayfly-interpreter [OPTION]...\n\n");
		options_print(options, stdout);
		return 0;
	}
	if (e.code == ERROR_NONE)
		(void)run(&s, &e);
	if (e.code == ERROR_NONE)
		return 0;
	(void)fprintf(stderr, "mayfly-interpreter: %s\n", e.message);
	return error_exit_status(e.code);
}
