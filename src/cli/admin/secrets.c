/* `mayfly secrets`: values that reach servers but never a guest. Needs the running daemon. The
 * secrets belong to the key `local`, as sandboxes of the command line do. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/admin/ask.h"
#include "cli/admin/listing.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/client.h"
#include "cli/remote/remote.h"
#include "cli/table.h"
#include "network/secrets.h"
#include "policy/seal.h"

struct secret_options {
	struct cli_common common;
	const char *file;
	struct option_list metadata;
};

static int call(
	const char *method, const char *path, const json_t *body, json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = admin_call(&home, method, path, body, ret, e);
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		r = client_no_daemon(&home, e);
	home_close(&home);
	return r;
}

/* Names need no escapes in paths. */
static int check_name(const char *name, struct error *e)
{
	char ignored[STORE_SECRET_NAME_MAX + 1];

	return str_starts_with(name, "sec_") && str_is_name(name)
		       ? 0
		       : secret_take_name(name, ignored, e);
}

/* --- set --- */

/* What is typed does not show. *saved: as it was. */
static bool hide(struct termios *saved)
{
	struct termios wanted;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, saved) < 0)
		return false;
	wanted = *saved;
	wanted.c_lflag &= ~(tcflag_t)ECHO;
	fprintf(stderr, "Value (not shown): ");
	return tcsetattr(STDIN_FILENO, TCSAFLUSH, &wanted) == 0;
}

/* The first line of a terminal; else everything. */
static ssize_t read_all(int fd, char *text, size_t max)
{
	size_t n = 0;
	ssize_t got;

	do {
		got = read(fd, text + n, max - n);
		if (got > 0)
			n += (size_t)got;
		if (got > 0 && isatty(fd) && text[n - 1] == '\n')
			break;
	} while ((got > 0 && n < max) || (got < 0 && errno == EINTR));
	return got < 0 ? -errno : (ssize_t)n;
}

/* Without one end of the line at its end. */
static int read_value(const char *file, char text[SECRET_VALUE_MAX + 3], struct error *e)
{
	_cleanup_close_ int opened = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	struct termios saved;
	bool hidden = !file && hide(&saved);
	ssize_t n = file && opened < 0
			    ? -errno
			    : read_all(file ? opened : STDIN_FILENO, text, SECRET_VALUE_MAX + 2);

	if (hidden) {
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved); /* may have hung up */
		fprintf(stderr, "\n");
	}
	if (n < 0)
		return error_set_errno(
			e, ERROR_USAGE, (int)-n, "cannot read %s", file ? file : "the value");
	if (n && text[n - 1] == '\n')
		n--;
	if (n && text[n - 1] == '\r')
		n--;
	text[n] = '\0';
	return secret_check_value(text, strlen(text) == (size_t)n ? (size_t)n : 0, e);
}

/* A new version, or the first one. */
static int put(const char *name, json_t *body, json_t **ret, struct error *e)
{
	_cleanup_free_ char *path = str_printf("/secrets/%s", name);
	int r = path ? call("POST", path, body, ret, e)
		     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0 || e->code != ERROR_NOT_FOUND)
		return r;
	error_clear(e);
	(void)json_object_set_new(body, "name", json_text(name)); /* the daemon misses it */
	return call("POST", "/secrets", body, ret, e);
}

static int set_value(const struct secret_options *o, const char *name, const char *value,
	json_t **ret, struct error *e)
{
	json_t *metadata = NULL, *body = json_object();
	int r = json_add_text(body, "value", value, "the value", e);

	if (r == 0 && o->metadata.count)
		r = environment_pairs(&o->metadata, "--metadata", &metadata, e);
	if (metadata)
		(void)json_object_set_new(body, "metadata", metadata); /* shows in ls */
	if (r == 0)
		r = put(name, body, ret, e);
	secret_wipe(json_object_get(body, "value"));
	json_decref(body);
	return r;
}

static int set_run(void *values, int argc, char **argv, struct error *e)
{
	const struct secret_options *o = values;
	char value[SECRET_VALUE_MAX + 3];
	json_t *made = NULL;
	int r = argc == 1 ? check_name(argv[0], e)
			  : error_set(e, ERROR_USAGE, EINVAL,
				    "give one name; the value comes from standard input or "
				    "--value-file, not from the command line");

	if (r == 0)
		r = read_value(o->file, value, e);
	if (r == 0)
		r = set_value(o, argv[0], value, &made, e);
	OPENSSL_cleanse(value, sizeof(value));
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(made, e);
	printf("%s version %lld\n", ask_text(made, "name"),
		(long long)json_integer_value(json_object_get(made, "currentVersion")));
	json_decref(made);
	return 0;
}

static const struct option_spec set_options[] = {
	{"value-file", 0, OPTION_STRING, "FILE", "file that holds the value (standard input)",
		offsetof(struct secret_options, file), 0, 0, false},
	{"metadata", 0, OPTION_LIST, "KEY=VALUE",
		"shown with the secret; replaces earlier metadata (repeatable)",
		offsetof(struct secret_options, metadata), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct cli_verb set_verb = {
	.name = "set",
	.arguments = "NAME",
	.summary = "Make a secret, or give it a new value",
	.description = "Reads the value from standard input, without the line feed at its end. "
		       "Running sandboxes\nuse a new value at once.",
	.options = set_options,
	.values_bytes = sizeof(struct secret_options),
	.run = set_run,
};

/* --- ls --- */

static void print_one(struct table *t, const json_t *s)
{
	char version[32];

	(void)snprintf(version, sizeof(version), "%lld",
		(long long)json_integer_value(json_object_get(s, "currentVersion"))); /* fits */
	{
		const char *const cells[] = {ask_text(s, "name"), version, ask_text(s, "updatedAt"),
			ask_text(s, "secretID")};

		table_add(t, cells);
	}
}

static int list(json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = remote_try_pages(&home, "/secrets", ret, e);
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		r = client_no_daemon(&home, e);
	home_close(&home);
	return r;
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {"NAME", "VERSION", "CHANGED", "ID"};
	static const struct listing l = {
		.heading = heading, .columns = ARRAY_SIZE(heading), .row = print_one};
	const struct secret_options *o = values;
	json_t *all = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = list(&all, e);
	return r < 0 ? r : listing_print(&l, all, o->common.json, e);
}

static const struct option_spec ls_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb ls_verb = {
	.name = "ls",
	.arguments = "",
	.summary = "List secrets, without their values",
	.options = ls_options,
	.values_bytes = sizeof(struct secret_options),
	.run = ls_run,
};

/* --- rm --- */

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	int r = argc ? 0
		     : error_set(e, ERROR_USAGE, EINVAL,
			       "give the names of secrets: see mayfly secrets ls");

	for (int i = 0; r == 0 && i < argc; i++) {
		_cleanup_free_ char *path = str_printf("/secrets/%s", argv[i]);

		r = path ? check_name(argv[i], e)
			 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		if (r == 0)
			r = call("DELETE", path, NULL, NULL, e);
		if (r < 0)
			error_prefix(e, "%.64s", argv[i]);
	}
	return r;
}

static const struct option_spec rm_options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb rm_verb = {
	.name = "rm",
	.arguments = "NAME...",
	.summary = "Remove secrets",
	.description = "From then on, requests of running sandboxes that need them get 502.",
	.options = rm_options,
	.values_bytes = sizeof(struct secret_options),
	.run = rm_run,
};

/* --- rotate-key --- */

static int rotate_run(void *values, int argc, char **argv, struct error *e)
{
	const struct secret_options *o = values;
	json_t *answer = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = call("POST", "/sealing-key/rotate", NULL, &answer, e);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(answer, e);
	printf("a new key seals %lld values; backups of before need the old one\n",
		(long long)json_integer_value(json_object_get(answer, "values")));
	json_decref(answer);
	return 0;
}

static const struct option_spec rotate_options[] = {
	CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb rotate_verb = {
	.name = "rotate-key",
	.arguments = "",
	.summary = "Make a new key for what is sealed, and seal it all anew",
	.description = "For a key file that others may have read. It is one transaction: after a "
		       "crash either key is in force, never a mixture. Values stay as they are. "
		       "Backups of before need the old key file.",
	.options = rotate_options,
	.values_bytes = sizeof(struct secret_options),
	.run = rotate_run,
};

static const struct cli_verb *const verbs[] = {&ls_verb, &set_verb, &rm_verb, &rotate_verb, NULL};

const struct cli_verb cli_verb_secrets = {
	.name = "secrets",
	.arguments = "COMMAND",
	.summary = "Values that reach servers and never a sandbox",
	.verbs = verbs,
};
