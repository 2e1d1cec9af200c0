#include "build/agent_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "build/spec.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"

#define PIP                                                                                        \
	"python -m pip install --cache-dir " SPEC_CACHE_DIR                                        \
	" --disable-pip-version-check --no-warn-script-location -r "
#define NPM(verb) "npm " verb " --cache " SPEC_CACHE_DIR " --no-audit --no-fund"

/* Prints a project's dependencies, one per line, because pip can only install whole projects. */
static const char project_dependencies[] =
	"python -c 'import tomllib; print(*tomllib.load(open(\"pyproject.toml\", \"rb\"))"
	".get(\"project\", {}).get(\"dependencies\", []), sep=\"\\n\")' >.requirements "
	"&& " PIP ".requirements";

struct planner {
	int dirfd;
	struct agent_plan *plan;
	json_t *package; /* package.json, or NULL */
	struct error *e;
};

/* --- files --- */

/* Whether the top folder has that file; a link counts as none. */
static bool has(const struct planner *p, const char *name)
{
	struct stat st;

	return p->dirfd >= 0 && fstatat(p->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode);
}

static const char *first_of(const struct planner *p, const char *const *names)
{
	while (*names && !has(p, *names))
		names++;
	return *names;
}

static int read_text(
	const struct planner *p, const char *name, char **ret, size_t *ret_n, struct error *e)
{
	int r = file_read_foreign(p->dirfd, name, AGENT_MANIFEST_MAX, ret, ret_n);

	if (r == -EFBIG)
		return error_set(e, ERROR_LIMIT, EFBIG, "%s has more than %d bytes", name,
			AGENT_MANIFEST_MAX);
	return r < 0 ? error_set_errno(e, ERROR_USAGE, -r, "cannot read %s", name) : 0;
}

static int read_json(const struct planner *p, const char *name, json_t **ret, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	const char *reason = "";
	size_t n = 0;
	int r = read_text(p, name, &text, &n, e);

	if (r < 0)
		return r;
	*ret = json_tree_parse(text, n, JSON_TREE_NO_NUL, &reason);
	return *ret ? 0 : error_set(e, ERROR_USAGE, EINVAL, "%s: %s", name, reason);
}

static int take_settings(struct planner *p, const json_t *given)
{
	json_t *file = NULL;
	int r = 0;

	p->plan->settings = given ? json_deep_copy(given) : json_object();
	if (!p->plan->settings)
		return -ENOMEM;
	if (!has(p, "agent.json"))
		return 0;
	r = read_json(p, "agent.json", &file, p->e);
	if (r == 0) {
		r = agent_settings_check(file, p->e);
		if (r < 0)
			error_prefix(p->e, "agent.json");
	}
	if (r == 0)
		r = agent_settings_merge(p->plan->settings, file);
	json_decref(file);
	return r;
}

/* --- steps --- */

static int add(struct planner *p, json_t *step)
{
	return json_array_append_new(p->plan->steps, step) < 0 ? -ENOMEM : 0;
}

/* cache: the id of one in SPEC_CACHE_DIR, or NULL. */
static int run(struct planner *p, const char *command, const char *cache)
{
	return add(
		p, json_pack("{s:s, s:[s], s:s*}", "type", "RUN", "args", command, "cache", cache));
}

static int copy(struct planner *p, const char *what)
{
	return add(p, json_pack("{s:s, s:[s, s], s:b}", "type", "COPY", "args", what, "./",
			      "context", 1));
}

/* A folder of the user's own. */
static int begin(struct planner *p)
{
	int r = run(p, "mkdir -p agent", NULL);

	return r < 0 ? r : add(p, json_pack("{s:s, s:[s]}", "type", "WORKDIR", "args", "agent"));
}

/* Adds steps that copy manifests, install what they name, and copy the rest. Without manifests they
 * copy everything first. command: the default installation, with its cache; NULL: none. */
static int install(
	struct planner *p, const char *const *manifests, const char *command, const char *cache)
{
	const char *own = json_tree_word(p->plan->settings, "install");
	bool any = false;
	int r = 0;

	for (; *manifests && r == 0; manifests++)
		if (has(p, *manifests)) {
			r = copy(p, *manifests);
			any = true;
		}
	if (r == 0 && any && (own || command))
		r = run(p, own ? own : command, own ? NULL : cache);
	if (r == 0)
		r = copy(p, ".");
	return r == 0 && !any && own ? run(p, own, NULL) : r;
}

static int set_entry(struct planner *p, const char *prefix, const char *what)
{
	const char *own = json_tree_word(p->plan->settings, "entry");

	p->plan->entry = own ? strdup(own) : str_printf("%s%s", prefix, what);
	if (!p->plan->entry)
		return -ENOMEM;
	if (agent_settings_is_command(p->plan->entry))
		return 0;
	return error_set(p->e, ERROR_USAGE, EINVAL,
		"the command that starts the agent must be one line of at most %d bytes",
		AGENT_SETTING_COMMAND_MAX);
}

/* Whether a shell takes it as one plain word. */
static bool is_plain(const char *word)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._/@-";

	return *word != '-' && strspn(word, letters) == strlen(word);
}

/* What is started, when nothing names it. */
static int find_entry(struct planner *p, const char *const *names, const char *prefix)
{
	const char *name = first_of(p, names);

	if (name || json_tree_word(p->plan->settings, "entry"))
		return set_entry(p, prefix, name ? name : "");
	return error_set(p->e, ERROR_USAGE, ENOENT,
		"cannot tell what starts the agent: there is no %s, %s or the like; give the "
		"command as \"entry\" in agent.json",
		names[0], names[1]);
}

/* --- kinds --- */

static const char *const node_programs[] = {
	"index.js", "main.js", "agent.js", "index.mjs", "main.mjs", "agent.mjs", "server.js", NULL};
static const char *const python_programs[] = {"main.py", "agent.py", "app.py", "__main__.py", NULL};
static const char *const deno_programs[] = {
	"main.ts", "mod.ts", "index.ts", "agent.ts", "main.js", NULL};
static const char *const nothing[] = {NULL};

/* Takes the command of `scripts.start` as npm would run it, but without starting npm. Else takes
 * `main`, else a program with a usual name. */
static int node_entry(struct planner *p)
{
	const char *start = json_tree_word(json_object_get(p->package, "scripts"), "start"),
		   *main_file = json_tree_word(p->package, "main");

	if (start)
		return set_entry(p, "PATH=$PWD/node_modules/.bin:$PATH; ", start);
	if (main_file && is_plain(main_file))
		return set_entry(p, "exec node ", main_file);
	return find_entry(p, node_programs, "exec node ");
}

static int plan_node(struct planner *p)
{
	static const char *const manifests[] = {
		"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc", NULL};
	static const char *const locks[] = {"package-lock.json", "npm-shrinkwrap.json", NULL};
	int r = has(p, "package.json") ? read_json(p, "package.json", &p->package, p->e) : 0;

	p->plan->kind = "node";
	p->plan->base = "node-20";
	if (r == 0)
		r = install(p, manifests, first_of(p, locks) ? NPM("ci") : NPM("install"), "npm");
	if (r == 0 && json_tree_word(json_object_get(p->package, "scripts"), "build"))
		r = run(p, "npm run build", NULL);
	return r < 0 ? r : node_entry(p);
}

static int plan_python(struct planner *p)
{
	static const char *const requirements[] = {"requirements.txt", NULL};
	static const char *const project[] = {"pyproject.toml", NULL};
	int r;

	p->plan->kind = "python";
	p->plan->base = "python-3.12";
	if (has(p, "requirements.txt"))
		r = install(p, requirements, PIP "requirements.txt", "pip");
	else
		r = install(p, project, project_dependencies, "pip");
	return r < 0 ? r : find_entry(p, python_programs, "exec python -u ");
}

static int plan_deno(struct planner *p)
{
	static const char *const manifests[] = {
		"deno.json", "deno.jsonc", "deno.lock", "package.json", ".npmrc", NULL};
	static const char *const settings[] = {"deno.json", "deno.jsonc", NULL};
	int r = install(p, manifests, first_of(p, settings) ? "deno install" : NULL, NULL);

	p->plan->kind = "deno";
	p->plan->base = "deno";
	return r < 0 ? r : find_entry(p, deno_programs, "exec deno run -A ");
}

static int plan_docker(struct planner *p)
{
	int r = read_text(p, "Dockerfile", &p->plan->dockerfile, &p->plan->dockerfile_bytes, p->e);

	p->plan->kind = "docker";
	if (r < 0 || !json_tree_word(p->plan->settings, "entry"))
		return r;
	return set_entry(p, "", "");
}

/* A program that is all of an agent, or a command. */
static int plan_command(struct planner *p)
{
	const char *own = json_tree_word(p->plan->settings, "entry");
	int r = install(p, nothing, NULL, NULL);

	p->plan->kind = "command";
	p->plan->base = "base";
	if (r == 0 && !own)
		r = error_set(p->e, ERROR_USAGE, ENOENT,
			"cannot tell what this agent is: there is no Dockerfile, package.json, "
			"requirements.txt, pyproject.toml, deno.json, main.py, index.js or "
			"main.ts; give the command that starts it as \"entry\" in agent.json");
	return r < 0 ? r : set_entry(p, "", "");
}

static int plan_template(struct planner *p, const char *base)
{
	int r = p->dirfd >= 0 ? install(p, nothing, NULL, NULL) : 0;

	p->plan->kind = "template";
	p->plan->base = base;
	if (r == 0 && !json_tree_word(p->plan->settings, "entry"))
		r = error_set(p->e, ERROR_USAGE, EINVAL,
			"an agent on a template needs \"entry\": the command that starts it");
	return r < 0 ? r : set_entry(p, "", "");
}

static int plan_kind(struct planner *p)
{
	static const char *const python[] = {"requirements.txt", "pyproject.toml", NULL};
	static const char *const deno[] = {"deno.json", "deno.jsonc", "deno.lock", NULL};

	if (has(p, "package.json"))
		return plan_node(p);
	if (first_of(p, python))
		return plan_python(p);
	if (first_of(p, deno))
		return plan_deno(p);
	if (json_tree_word(p->plan->settings, "entry"))
		return plan_command(p);
	if (first_of(p, python_programs))
		return plan_python(p);
	if (first_of(p, node_programs))
		return plan_node(p);
	return first_of(p, deno_programs) ? plan_deno(p) : plan_command(p);
}

int agent_plan_make(int dirfd, const json_t *agent, struct agent_plan *ret, struct error *e)
{
	struct planner p = {.dirfd = dirfd, .plan = ret, .e = e};
	const char *base = json_tree_word(agent, "base"), *runtime;
	int r;

	*ret = (struct agent_plan){.steps = json_array()};
	r = ret->steps ? take_settings(&p, json_object_get(agent, "settings")) : -ENOMEM;
	if (r == 0 && !base && has(&p, "Dockerfile"))
		r = plan_docker(&p);
	else if (r == 0) {
		r = dirfd >= 0 ? begin(&p) : 0;
		if (r == 0)
			r = base ? plan_template(&p, base) : plan_kind(&p);
	}
	runtime = json_tree_word(ret->settings, "runtime");
	if (r == 0 && runtime && ret->base && !base)
		ret->base = runtime;
	json_decref(p.package);
	if (r < 0)
		(void)error_set(
			e, ERROR_NO_SPACE, ENOMEM, "out of memory"); /* unless already set */
	return r;
}

void agent_plan_done(struct agent_plan *p)
{
	json_decref(p->steps);
	json_decref(p->settings);
	free(p->entry);
	free(p->dockerfile);
	*p = (struct agent_plan){.kind = NULL};
}
