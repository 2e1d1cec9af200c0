/* src/build/agent_plan, src/proto/agent_settings: what an agent's files are, and the steps that
 * make its template. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "build/agent_plan.h"
#include "build/spec.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"

struct files {
	char dir[64];
	int fd;
	struct agent_plan plan;
	struct error e;
};

static int setup(void **state)
{
	struct files *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/mayfly-agent-plan-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct files *f = *state;

	agent_plan_done(&f->plan);
	(void)close(f->fd);
	(void)file_remove_tree(AT_FDCWD, f->dir); /* leaves rubbish at worst */
	free(f);
	return 0;
}

static void put(struct files *f, const char *name, const char *text)
{
	assert_int_equal(file_write_atomic(f->fd, name, text, strlen(text), 0600), 0);
}

static int try_plan(struct files *f, const char *agent)
{
	json_t *root = json_tree_stored(agent);
	int r;

	assert_non_null(root);
	agent_plan_done(&f->plan);
	error_clear(&f->e);
	r = agent_plan_make(f->fd, root, &f->plan, &f->e);
	/* strings of the request are borrowed by nothing but `base` */
	json_decref(root);
	return r;
}

static void plan(struct files *f, const char *agent, const char *kind, const char *entry)
{
	if (try_plan(f, agent) < 0)
		fail_msg("%s", f->e.message);
	assert_string_equal(f->plan.kind, kind);
	if (entry)
		assert_string_equal(f->plan.entry, entry);
}

/* The steps as "TYPE argument", a line each. */
static void steps_are(struct files *f, const char *wanted)
{
	char text[4096] = "";
	const json_t *step;
	size_t i, n = 0;

	json_array_foreach(f->plan.steps, i, step) n += (size_t)snprintf(text + n, sizeof(text) - n,
		"%s %s\n", json_tree_text(step, "type"),
		json_string_value(json_array_get(json_object_get(step, "args"), 0)));
	assert_string_equal(text, wanted);
}

static const char *cache_of(const struct files *f, size_t step)
{
	return json_tree_word(json_array_get(f->plan.steps, step), "cache");
}

#define NPM_OPTIONS " --cache " SPEC_CACHE_DIR " --no-audit --no-fund\n"
#define BEGIN	    "RUN mkdir -p agent\nWORKDIR agent\n"

static void test_node(void **state)
{
	struct files *f = *state;

	put(f, "package.json", "{\"main\": \"lib/agent.js\"}");
	plan(f, "{}", "node", "exec node lib/agent.js");
	assert_string_equal(f->plan.base, "node-20");
	steps_are(f, BEGIN "COPY package.json\nRUN npm install" NPM_OPTIONS "COPY .\n");
	assert_string_equal(cache_of(f, 3), "npm");
	put(f, "package-lock.json", "{}");
	put(f, "package.json",
		"{\"main\": \"x\", \"scripts\": {\"start\": \"tsx a.ts\", \"build\": \"tsc\"}}");
	plan(f, "{}", "node", "PATH=$PWD/node_modules/.bin:$PATH; tsx a.ts");
	steps_are(f, BEGIN "COPY package.json\nCOPY package-lock.json\n"
			   "RUN npm ci" NPM_OPTIONS "COPY .\nRUN npm run build\n");
	assert_string_equal(cache_of(f, 4), "npm");
	assert_null(cache_of(f, 6)); /* it is no installation */
	/* what a shell would not take as a word is no program */
	put(f, "package.json", "{\"main\": \"$(reboot).js\"}");
	assert_true(try_plan(f, "{}") < 0);
	put(f, "index.js", "");
	plan(f, "{}", "node", "exec node index.js");
}

static void test_python(void **state)
{
	struct files *f = *state;

	put(f, "agent.py", "");
	plan(f, "{}", "python", "exec python -u agent.py");
	steps_are(f, BEGIN "COPY .\n");
	put(f, "main.py", "");
	put(f, "requirements.txt", "x\n");
	plan(f, "{}", "python", "exec python -u main.py");
	assert_string_equal(f->plan.base, "python-3.12");
	steps_are(f, BEGIN
		"COPY requirements.txt\nRUN python -m pip install --cache-dir " SPEC_CACHE_DIR " "
		"--disable-pip-version-check --no-warn-script-location -r "
		"requirements.txt\nCOPY .\n");
	assert_string_equal(cache_of(f, 3), "pip");
	plan(f, "{\"settings\": {\"install\": \"make venv\"}}", "python", "exec python -u main.py");
	assert_null(cache_of(f, 3));
}

static void test_deno(void **state)
{
	struct files *f = *state;

	put(f, "deno.json", "{}");
	put(f, "main.ts", "");
	plan(f, "{}", "deno", "exec deno run -A main.ts");
	steps_are(f, BEGIN "COPY deno.json\nRUN deno install\nCOPY .\n");
}

static void test_dockerfile(void **state)
{
	struct files *f = *state;

	put(f, "Dockerfile", "FROM base\nCMD [\"cat\"]\n");
	put(f, "package.json", "{}");
	plan(f, "{}", "docker", NULL);
	assert_null(f->plan.entry);
	assert_null(f->plan.base);
	assert_non_null(strstr(f->plan.dockerfile, "CMD"));
	plan(f, "{\"settings\": {\"entry\": \"cat -u\"}}", "docker", "cat -u");
}

static void test_settings(void **state)
{
	struct files *f = *state;
	struct agent_sizes s;

	put(f, "agent.json",
		"{\"entry\": \"./run\", \"memory\": \"1G\", \"runtime\": \"deno\", "
		"\"env\": {\"A\": \"1\", \"B\": \"2\"}}");
	plan(f,
		"{\"settings\": {\"env\": {\"A\": \"3\"}, \"timeout\": \"2m\", \"install\": "
		"\"make\"}}",
		"command", "./run");
	assert_string_equal(f->plan.base, "deno");
	steps_are(f, BEGIN "COPY .\nRUN make\n");
	s = agent_settings_sizes(f->plan.settings);
	assert_int_equal(s.memory_mb, 1024);
	assert_int_equal(s.timeout_s, 120);
	assert_int_equal(s.cpus, 2);
	assert_string_equal(json_tree_text(json_object_get(f->plan.settings, "env"), "A"), "3");
	assert_string_equal(json_tree_text(json_object_get(f->plan.settings, "env"), "B"), "2");
	put(f, "agent.json", "{\"entri\": \"./run\"}");
	assert_true(try_plan(f, "{}") < 0);
	assert_non_null(strstr(f->e.message, "agent.json: 'entri'"));
}

static const char *wrong(struct files *f, const char *settings)
{
	json_t *v = json_loads(settings, 0, NULL);

	assert_non_null(v);
	error_clear(&f->e);
	assert_true(agent_settings_check(v, &f->e) < 0);
	json_decref(v);
	return f->e.message;
}

/* What a request says about the network is all that counts of it. */
static void test_network(void **state)
{
	struct files *f = *state;
	const json_t *s;

	put(f, "agent.json",
		"{\"entry\": \"./run\", \"network\": {\"denyOut\": [\"0.0.0.0/0\"], \"allowOut\": "
		"[\"a.test\"]}, \"policy\": {\"version\": 1}}");
	plan(f, "{\"settings\": {\"cpus\": 1}}", "command", "./run");
	assert_int_equal(json_object_size(json_object_get(f->plan.settings, "network")), 2);
	assert_non_null(json_object_get(f->plan.settings, "policy"));
	plan(f, "{\"settings\": {\"allow_internet_access\": false}}", "command", "./run");
	s = f->plan.settings;
	assert_true(json_is_false(json_object_get(s, "allow_internet_access")));
	assert_null(json_object_get(s, "network"));
	assert_null(json_object_get(s, "policy"));
	assert_string_equal(
		wrong(f, "{\"network\": null}"), "network must be an object of at most 32 KiB");
	assert_string_equal(
		wrong(f, "{\"policy\": []}"), "policy must be an object of at most 32 KiB");
	assert_string_equal(wrong(f, "{\"allow_internet_access\": 0}"),
		"allow_internet_access must be true or false");
}

static void test_nothing_known(void **state)
{
	struct files *f = *state;

	put(f, "README", "");
	assert_true(try_plan(f, "{}") < 0);
	assert_int_equal(f->e.code, ERROR_USAGE);
	assert_non_null(strstr(f->e.message, "agent.json"));
	assert_true(try_plan(f, "{\"base\": \"base\"}") < 0);
	assert_non_null(strstr(f->e.message, "entry"));
	plan(f, "{\"base\": \"web\", \"settings\": {\"entry\": \"cat\"}}", "template", "cat");
}

/* Files are strangers': links lead nowhere, and what is too large is not read. */
static void test_hostile_files(void **state)
{
	struct files *f = *state;
	_cleanup_free_ char *much = malloc(AGENT_MANIFEST_MAX + 2);

	assert_int_equal(symlinkat("/etc/passwd", f->fd, "package.json"), 0);
	assert_int_equal(symlinkat("/etc/passwd", f->fd, "agent.json"), 0);
	put(f, "main.py", "");
	plan(f, "{}", "python", NULL);
	assert_int_equal(unlinkat(f->fd, "package.json", 0), 0);
	assert_non_null(much);
	memset(much, ' ', AGENT_MANIFEST_MAX + 1);
	much[AGENT_MANIFEST_MAX + 1] = '\0';
	put(f, "package.json", much);
	assert_true(try_plan(f, "{}") < 0);
	assert_non_null(strstr(f->e.message, "package.json"));
	put(f, "package.json", "{\"scripts\": {\"start\": \"a\\nb\"}}");
	assert_true(try_plan(f, "{}") < 0);
	put(f, "package.json", "[]");
	assert_true(try_plan(f, "{}") < 0);
	put(f, "package.json", "{\"scripts\": 1, \"main\": [], \"x\": null}");
	assert_true(try_plan(f, "{}") < 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_node),
		T(test_python),
		T(test_deno),
		T(test_dockerfile),
		T(test_settings),
		T(test_network),
		T(test_nothing_known),
		T(test_hostile_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
