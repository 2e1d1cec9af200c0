/* `mayfly template run-build`: one build of a client's template. The daemon starts it
 * (catalog/jobs.h), writes the specification to its standard input, and reads reports from its
 * standard output. It ends when the daemon ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "build/builder.h"
#include "build/spec.h"
#include "cli/template/template.h"
#include "cli/template/template_files.h"
#include "cli/template/template_network.h"
#include "cli/template/template_run_agent.h"
#include "image/image.h"
#include "image/template.h"
#include "image/workdir.h"
#include "io/jailed.h"
#include "jail/confine.h"
#include "oci/destination.h"
#include "policy/network_floor_json.h"
#include "proto/json_tree.h"
#include "sandbox/options.h"
#include "sandbox/prepare.h"

_Static_assert((int)OCI_REACH_NETS_MAX >= (int)NETWORK_PRIVATE_MAX, "all of them fit");

enum {
	LINE_MAX_BYTES = 4096, /* of a command's output; longer ones are split */
	STEP_BYTES = 32,
	NICE = 5, /* sandboxes come first */
	DISK_MB_MIN = 4096,
	DISK_MB_ROOM = 2048, /* for the system, beside what is to be free */
	BUDGET_MB_MIN = 16384,
};

struct run_build_options {
	struct cli_common common;
	const char *jail;
	struct option_list mirrors;
};

struct run_build {
	struct spec spec;
	struct run_agent agent; /* of a hosted agent's build */
	struct home home;
	struct kernel kernel;
	struct workdir files; /* the build's directory; never finished */
	struct network_floor *floor;
	struct template_network network;
	struct oci_reach reach; /* of registries that clients name */
	const struct option_list *mirrors;
	bool networked; /* the daemon said what the network is */
	struct disk_budget budget;
	struct progress progress;
	char phase[64];
	char *cold;	       /* owned: why no program waits in the snapshot, or NULL */
	char step[STEP_BYTES]; /* the current one, as clients name it */
	char prefix[256];      /* of errors of the current step, which says less to clients */
	char line[LINE_MAX_BYTES];
	size_t line_bytes;
};

/* --- what the daemon is told --- */

static void say(json_t *message)
{
	(void)json_dumpf(message, stdout, JSON_COMPACT); /* a lost line is a lost line */
	(void)fputc('\n', stdout);
	(void)fflush(stdout);
	json_decref(message);
}

/* Text of others, of which JSON takes only UTF-8. */
static json_t *text_json(const char *text, size_t n)
{
	json_t *json = json_stringn(text, n);
	_cleanup_free_ char *copy = json ? NULL : strndup(text, n);

	for (char *p = copy; p && *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json ? json : json_string(copy ? copy : "");
}

static void say_log(struct run_build *b, int level, const char *text, size_t n)
{
	if (n)
		say(json_pack("{s:{s:i, s:s, s:o}}", "log", "level", level, "step", b->step,
			"message", text_json(text, n)));
}

static void say_failed(struct run_build *b, const struct error *e)
{
	const char *text = e->message;
	_cleanup_free_ char *words = NULL;

	if (*b->prefix && str_starts_with(text, b->prefix)) {
		text += strlen(b->prefix);
		if (!b->agent.is)
			words = spec_words_of_failure(&b->spec, (unsigned)atoi(b->step), text);
	}
	if (words)
		text = words;
	say_log(b, 3, text, strlen(text));
	say(json_pack("{s:{s:s, s:o}}", "failed", "step", b->step, "message",
		text_json(text, strlen(text))));
}

/* --- what the builder tells --- */

static void end_line(struct run_build *b)
{
	say_log(b, 1, b->line, b->line_bytes);
	b->line_bytes = 0;
}

static int on_step(
	void *opaque, size_t number, size_t count, const struct dockerfile_step *step, bool cached)
{
	struct run_build *b = opaque;
	char text[256];
	int n;

	end_line(b);
	if (!b->agent.is) /* else it names the step for people */
		(void)snprintf(b->prefix, sizeof(b->prefix),
			"step %zu of %zu (line %u): %.159s: ", number, count, step->line,
			step->text); /* as builder.c does */
	if (step->line == 0)
		(void)snprintf(b->step, sizeof(b->step), "base"); /* these fit */
	else if ((unsigned)atoi(b->step) != step->line || strcmp(b->step, "base") == 0 ||
		 step->trigger_of) {
		(void)snprintf(b->step, sizeof(b->step), "%u", step->line);
		n = snprintf(text, sizeof(text), "%s[builder %zu/%zu] %s", cached ? "CACHED " : "",
			b->agent.is ? number : (size_t)step->line,
			b->agent.is ? count
				    : json_array_size(json_object_get(b->spec.root, "steps")),
			step->text);
		say_log(b, 1, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
	}
	return 0;
}

static int on_output(void *opaque, const void *data, size_t n)
{
	struct run_build *b = opaque;
	const char *p = data;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || b->line_bytes == sizeof(b->line))
			end_line(b);
		if (p[i] != '\n' && p[i] != '\r' && p[i])
			b->line[b->line_bytes++] = p[i];
	}
	return 0;
}

static void on_note(void *opaque, unsigned line, const char *text)
{
	say_log(opaque, 2, text, strlen(text));
}

static int note_cold(struct run_build *b, const char *why)
{
	_cleanup_free_ char *text = str_printf(PREPARE_NOT_WARM ": %s", why);

	free(b->cold);
	b->cold = strdup(why);
	if (!text || !b->cold)
		return -ENOMEM;
	say_log(b, 2, text, strlen(text));
	return 0;
}

/* Reports a line for each phase, but not the progress within it, which can be a lot. */
static int on_progress(void *opaque, const char *phase, int percent, const char *line)
{
	struct run_build *b = opaque;

	if (strcmp(phase, b->phase) == 0)
		return 0;
	(void)snprintf(b->phase, sizeof(b->phase), "%s", phase); /* may be cut */
	if (strcmp(phase, PREPARE_NOT_WARM) == 0 && line)
		return note_cold(b, line);
	say_log(b, 0, phase, strlen(phase));
	return 0;
}

static void on_start_line(void *opaque, const char *line, size_t n)
{
	say_log(opaque, 1, line, n);
}

static const struct machine_network *get_network(void *opaque, const char *list)
{
	struct run_build *b = opaque;

	return b->networked ? template_network_get(&b->network, list) : NULL;
}

static int get_snapshot(void *opaque, const char *name, struct base_snapshot *ret, struct error *e)
{
	const struct run_build *b = opaque;

	*ret = b->spec.snapshot;
	return ret->id && strcmp(name, ret->id) == 0;
}

/* --- the build --- */

static int read_spec(struct run_build *b, struct error *e)
{
	char *text = calloc(1, SPEC_BYTES_MAX + 1);
	size_t n;
	int r;

	if (!text)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	n = fgets(text, SPEC_BYTES_MAX + 1, stdin) ? strlen(text) : 0;
	if (n == 0 || (n == SPEC_BYTES_MAX && text[n - 1] != '\n'))
		r = error_set(e, ERROR_USAGE, EINVAL,
			"standard input must be a build's specification: only mayfly serve calls "
			"this");
	else
		r = spec_read(text, n, &b->spec, e);
	explicit_bzero(text, n);
	free(text);
	return r;
}

/* Asks the daemon, which answers with a line. NULL: it misses what it should answer. *ret is
 * malloc'ed. */
static int ask_daemon(json_t *message, char **ret, struct error *e)
{
	size_t size = 0;

	*ret = NULL;
	say(message);
	return getline(ret, &size, stdin) > 0
		       ? 0
		       : error_set(e, ERROR_HOST, EPIPE, "the daemon gave no answer");
}

/* Says what the agent is, and takes the answer into its image. */
static int describe_agent(struct run_build *b, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	int r = ask_daemon(run_agent_json(&b->agent), &text, e);

	return r < 0 ? r : run_agent_take_answer(&b->agent, &b->home, b->spec.build, text, e);
}

/* Waits for the template of a runtime, or for another one that may be a runtime's. */
static int need(void *opaque, bool runtime, const char *name, char **ret, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	json_t *answer;
	int r = ask_daemon(
		json_pack("{s:{s:s}}", "need", runtime ? "runtime" : "template", name), &text, e);

	if (r < 0)
		return r;
	answer = json_tree_stored(text);
	*ret = strdup(json_tree_text(answer, "template"));
	if (json_tree_word(answer, "failed"))
		r = error_set(e, ERROR_NOT_FOUND, ENOENT, "%s", json_tree_word(answer, "failed"));
	else if (!*ret)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	json_decref(answer);
	return r;
}

/* Reads the limits for the network of RUN (catalog/jobs.h). Without them there is no network. */
static int read_network(struct run_build *b, struct error *e)
{
	const json_t *network = json_object_get(b->spec.root, "network"),
		     *floor = json_object_get(network, "floor");
	int r = floor ? network_floor_from_json(floor, &b->floor, e) : 0;

	b->network.floors.all = b->floor;
	b->network.floors.key = json_string_value(json_object_get(network, "key"));
	b->networked = r == 0 && network;
	return r;
}

/* The operator's registry may have any address. Others must be public, unless the operator opens
 * private addresses. */
static void limit_reach(struct run_build *b)
{
	struct oci_reach *r = &b->reach;

	r->stranger = true;
	r->public_only = !b->spec.own_registry;
	for (unsigned i = 0; b->floor && i < b->floor->private_count; i++) {
		const struct network_target *t = &b->floor->private[i];

		r->nets[r->count++] = (struct net){
			t->net, t->bits ? UINT32_MAX << (32 - t->bits) : 0}; /* as many fit */
	}
}

/* Three times the wanted disk: for the copied base, for what steps write, and for the image that it
 * becomes. */
static void set_budget(struct run_build *b)
{
	uint64_t mb = 3 * ((uint64_t)b->spec.free_mb + DISK_MB_ROOM);

	b->budget = (struct disk_budget){.fd = b->home.area_fd[HOME_IMAGES],
		.bytes_max = (mb > BUDGET_MB_MIN ? mb : BUDGET_MB_MIN) << 20,
		.reserve_bytes = b->spec.reserve_bytes};
}

static int unpack_files(struct run_build *b, struct error *e)
{
	_cleanup_free_ char *name = str_printf("%.36s.files", b->spec.build);
	int r = name ? workdir_begin(b->home.area_fd[HOME_IMAGES], name, "directory", &b->files, e)
		     : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	if (r == 0 && json_object_get(b->spec.root, "agent"))
		r = run_agent_unpack(&b->agent, &b->spec, b->files.fd, &b->budget, e);
	if (r == 0 && b->agent.is)
		r = run_agent_needs(&b->agent, &b->spec, &b->home, need, b, e);
	if (r == 0 && !b->agent.plan.dockerfile)
		r = spec_make_steps(&b->home, &b->spec, e);
	for (size_t i = 0; i < b->spec.step_count && r == 0; i++) {
		const struct spec_step *s = &b->spec.steps[i];

		(void)snprintf(b->step, sizeof(b->step), "%u", s->number); /* fits */
		r = template_files_unpack(b->files.fd, b->step, s->files, &b->budget, e);
	}
	(void)snprintf(b->step, sizeof(b->step), "base"); /* fits */
	return r;
}

static uint32_t wanted_disk_mb(const struct spec *s)
{
	uint32_t mb = s->free_mb + DISK_MB_ROOM;

	if (s->on_template || mb <= DISK_MB_MIN)
		return 0;
	return mb < SANDBOX_DISK_MB_MAX ? mb : SANDBOX_DISK_MB_MAX;
}

/* Like E2B: without a ready command, the started program gets some time. */
static const char *ready_command(const struct spec *s)
{
	return s->ready ? s->ready : s->start ? "sleep 20" : NULL;
}

static uint64_t cache_max_ns(const struct spec *s)
{
	json_int_t seconds = json_integer_value(json_object_get(s->root, "cacheMaxSeconds"));

	return seconds > 0 ? (uint64_t)seconds * NS_PER_S : 0;
}

static int build_image(struct run_build *b, struct error *e)
{
	struct ignore ignore = {.count = 0};
	_cleanup_free_ char *start = NULL;
	struct vars args = {NULL, 0};
	struct builder_options o = {.home = &b->home,
		.name = b->spec.build,
		.file = &b->spec.file,
		.args = &args,
		.context_fd = b->agent.is ? b->agent.fd : b->files.fd,
		.context_parts = !b->agent.is, /* one for each archive */
		.ignore = &ignore,
		.kernel = &b->kernel,
		.cpus = b->spec.cpus,
		.memory_mb = b->spec.memory_mb,
		.disk_mb = wanted_disk_mb(&b->spec),
		.ready = ready_command(&b->spec),
		.registry_auth = b->spec.auth,
		.reach = &b->reach,
		.mirrors = b->mirrors,
		.trust = json_tree_word(b->spec.root, "trust"),
		.client = b->agent.is,
		.client_registry = b->agent.registry,
		.no_triggers = !b->agent.plan.dockerfile,
		.no_cache = b->spec.force,
		.caches = b->agent.caches,
		.budget = &b->budget,
		.progress = &b->progress,
		.owner = json_tree_word(b->spec.root, "owner"),
		.cache_max_ns = cache_max_ns(&b->spec),
		.scope = b->network.floors.key,
		.ops = {on_step, on_output, on_note, get_network, get_snapshot, b}};
	int r = b->agent.is ? run_agent_ignore(&b->agent, &ignore, e)
			    : ignore_parse("", 0, &ignore, e);

	if (r == 0 && b->spec.start)
		r = spec_login_command(b->spec.start, &start, e);
	o.start = start ? start : b->spec.inherited;
	if (r == 0)
		r = builder_run(&o, e);
	end_line(b);
	ignore_done(&ignore);
	return r;
}

/* The snapshot has the guest's memory, whose bytes the steps' limit does not count. */
static int check_memory_room(const struct run_build *b, struct error *e)
{
	struct image m = {0};
	int r = image_load(&b->home, b->spec.build, &m, e);

	if (r == 0)
		r = disk_budget_room(&b->budget, (uint64_t)m.config.memory_mb << 20, e);
	image_done(&m);
	return r;
}

static int make_template(struct run_build *b, struct error *e)
{
	const struct start_watch watch = {on_start_line, b, b->spec.start};
	/* an agent's own program is not a service that E2B's clients wait for */
	const struct prepare_more more = {.trust = b->agent.trust,
		.disk_mb = b->agent.disk_mb,
		.start = b->agent.is ? NULL : &watch};
	int r = check_memory_room(b, e);

	b->prefix[0] = '\0';
	(void)snprintf(b->step, sizeof(b->step), "finalize"); /* fits */
	if (r < 0)
		return r;
	say_log(b, 1, "[finalize] boot, start and snapshot", 35);
	r = prepare_template(&b->home, b->spec.build, &b->kernel, &more, &b->progress, e);
	/* the template has its own link to the disk */
	(void)workdir_remove(b->home.area_fd[HOME_IMAGES], b->spec.build);
	return r;
}

static int say_end(struct run_build *b, struct error *e)
{
	struct template t = {0};
	int r = template_load(&b->home, b->spec.build, &t, e);

	if (r == 0)
		say(json_pack("{s:{s:I, s:s*}}", "end", "diskMB", (json_int_t)t.config.disk_mb,
			"cold", b->cold));
	template_done(&t);
	return r;
}

static int build(struct run_build *b, struct error *e)
{
	int r = read_spec(b, e);

	set_budget(b);
	if (r == 0)
		r = read_network(b, e);
	limit_reach(b);
	if (r == 0)
		r = unpack_files(b, e);
	if (r == 0)
		r = prepare_kernel(&b->home, NULL, NULL, &b->progress, &b->kernel, e);
	if (r == 0)
		r = build_image(b, e);
	if (r == 0 && b->agent.is)
		r = run_agent_take_config(&b->agent, &b->home, b->spec.build, e);
	if (r == 0 && b->agent.is)
		r = describe_agent(b, e);
	if (r == 0)
		r = make_template(b, e);
	return r == 0 ? say_end(b, e) : r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct run_build_options *o = values;
	struct run_build *b = calloc(1, sizeof(*b));
	int r = b ? cli_no_arguments(argc, argv, e)
		  : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);	  /* the daemon; cannot fail */
	(void)setpriority(PRIO_PROCESS, 0, NICE); /* lower always works */
	(void)confine_hide(); /* it has secrets of the build; it works without, too */
	/* what the operator may pull is not every client's */
	if (r == 0 && setenv("DOCKER_CONFIG", "/nonexistent", 1) < 0)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r < 0) {
		free(b);
		return r;
	}
	b->home = (struct home)HOME_INIT;
	b->files = (struct workdir)WORKDIR_INIT;
	b->agent.fd = -1;
	b->mirrors = &o->mirrors;
	b->progress = (struct progress){on_progress, b};
	(void)snprintf(b->step, sizeof(b->step), "base"); /* fits */
	r = jailed_configure(o->jail, e);
	if (r == 0)
		r = jailed_prepare(NULL, e);
	if (r == 0)
		r = home_open(NULL, &b->home, e);
	if (r == 0)
		r = build(b, e);
	if (r < 0)
		say_failed(b, e);
	run_agent_done(&b->agent);
	workdir_abort(&b->files);
	kernel_done(&b->kernel);
	network_floor_free(b->floor);
	spec_done(&b->spec);
	home_close(&b->home);
	free(b->cold);
	free(b);
	return r < 0 ? EXIT_FAILURE : 0; /* the daemon was told why; its log need not know */
}

static const struct run_build_options defaults = {.jail = "on"};

static const struct option_spec options[] = {
	{"registry-mirror", 0, OPTION_LIST, "MIRROR", "as of serve",
		offsetof(struct run_build_options, mirrors), 0, 0, false},
	CLI_OPTION_JAIL(struct run_build_options),
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_template_run_build = {
	.name = "run-build",
	.arguments = "",
	.summary = "Build what the daemon says on standard input",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct run_build_options),
	.run = run,
	.hidden = true,
};
