/* `mayfly network`: shows or replaces what a sandbox may reach. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/remote.h"
#include "cli/sandbox/network_options.h"
#include "cli/sandbox/states.h"
#include "cli/table.h"

#define OFF "off"

struct options {
	struct cli_common common;
	struct network_options network;
};

static const struct option_spec options[] = {
	CLI_OPTION_NETWORK(struct options),
	CLI_OPTION_ALLOW(struct options),
	CLI_OPTION_ALLOW_IN(struct options),
	CLI_OPTION_DENY(struct options),
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* A line for each entry. */
static void add_lines(struct table *t, const json_t *network, const char *name, const char *title)
{
	const json_t *list = json_object_get(network, name);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		const char *const cells[] = {title, text ? text : ""};

		table_add(t, cells);
	}
}

/* "api.example.com: Authorization", without values, which may be secret. */
static void add_rules(struct table *t, const json_t *network)
{
	json_t *rules = json_object_get(network, "rules"), *entries, *value;
	const char *host, *name;

	json_object_foreach(rules, host, entries)
	{
		json_t *transform = json_object_get(json_array_get(entries, 0), "transform");

		json_object_foreach(json_object_get(transform, "headers"), name, value)
		{
			_cleanup_free_ char *text = str_printf("%s: %s", host, name);
			const char *const cells[] = {"header", text ? text : host};

			table_add(t, cells);
		}
	}
}

/* "KEY: openai" */
static void add_secrets(struct table *t, json_t *secrets)
{
	const char *variable;
	json_t *one;

	json_object_foreach(secrets, variable, one)
	{
		_cleanup_free_ char *text = str_printf(
			"%s: %s", variable, json_string_value(json_object_get(one, "secret")));
		const char *const cells[] = {"secret", text ? text : variable};

		table_add(t, cells);
	}
}

/* --- the limits above --- */

/* "only packages.example:443, x.com"; NULL: out of memory. */
static char *only(const json_t *allow)
{
	char *all = str_printf("only");

	for (size_t i = 0; all && i < json_array_size(allow); i++) {
		char *more = str_printf(
			"%s%s %s", all, i ? "," : "", json_string_value(json_array_get(allow, i)));

		free(all);
		all = more;
	}
	return all;
}

static char *floor_text(const json_t *floor)
{
	const json_t *allow = json_object_get(floor, "allow");
	bool policy = json_is_true(json_object_get(floor, "policy"));
	_cleanup_free_ char *list = json_array_size(allow) ? only(allow) : NULL;

	if (!allow)
		return str_printf("a policy");
	if (!json_array_size(allow))
		return str_printf(OFF);
	return list ? str_printf("%s%s", list, policy ? ", and a policy" : "") : NULL;
}

static bool is_floor_off(const json_t *floor)
{
	const json_t *allow = json_object_get(floor, "allow");

	return allow && !json_array_size(allow);
}

/* A line for each, of the operator first. */
static void add_floors(struct table *t, json_t *floors)
{
	const char *who;
	json_t *floor;

	json_object_foreach(floors, who, floor)
	{
		_cleanup_free_ char *text = floor_text(floor);
		const char *const cells[] = {who, text ? text : ""};

		table_add(t, cells);
	}
}

/* --- the answer --- */

static bool has_entry(const json_t *network, const char *name, const char *entry)
{
	const json_t *list = json_object_get(network, name);

	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), entry) == 0)
			return true;
	return false;
}

/* Whether nothing is allowed, whoever says so. */
static bool is_off(const json_t *network, bool denies_all, json_t *floors)
{
	const char *who;
	json_t *floor;

	json_object_foreach(floors, who, floor) if (is_floor_off(floor)) return true;
	return denies_all && !json_array_size(json_object_get(network, "allowOut"));
}

/* "proxy.example.com:1080 as USER over TLS" */
static void add_proxy(struct table *t, const json_t *network)
{
	const json_t *proxy = json_object_get(network, "egressProxy");
	const char *address = json_string_value(json_object_get(proxy, "address")),
		   *user = json_string_value(json_object_get(proxy, "username"));
	bool tls = json_is_true(json_object_get(json_object_get(proxy, "tls"), "enabled"));
	_cleanup_free_ char *text = str_printf("%s%s%s%s", address ? address : "",
		user ? " as " : "", user ? user : "", tls ? " over TLS" : "");

	if (address)
		table_add(t, (const char *const[]){"proxy", text ? text : address});
}

static void add_https_ports(struct table *t, const json_t *network)
{
	const json_t *list = json_object_get(network, "httpsPorts");

	for (size_t i = 0; i < json_array_size(list); i++) {
		char port[24];

		(void)snprintf(port, sizeof(port), "%lld",
			json_integer_value(json_array_get(list, i))); /* fits */
		table_add(t, (const char *const[]){"https port", port});
	}
}

static int print(const json_t *answer, struct error *e)
{
	const json_t *network = json_object_get(answer, "network");
	json_t *floors = json_object_get(answer, "networkFloors");
	bool no_internet = json_is_false(json_object_get(answer, "allowInternetAccess")),
	     listed = has_entry(network, "denyOut", NETWORK_EVERYTHING),
	     off = is_off(network, no_internet || listed, floors);
	struct table t = {.columns = 2};

	table_add(&t, (const char *const[]){"network", off ? OFF : "on"});
	add_floors(&t, floors);
	add_lines(&t, network, "allowOut", "allow");
	add_lines(&t, network, "denyOut", "deny");
	if (no_internet && !listed && !off)
		table_add(&t, (const char *const[]){"deny", NETWORK_EVERYTHING});
	if (json_object_get(answer, "policy"))
		table_add(&t, (const char *const[]){"policy", "see mayfly policy ID"});
	add_lines(&t, network, "allowIn", "allow in");
	add_lines(&t, network, "dnsServers", "resolver");
	add_proxy(&t, network);
	add_https_ports(&t, network);
	add_rules(&t, network);
	add_secrets(&t, json_object_get(answer, "secrets"));
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int show(const struct remote *remote, bool json, struct error *e)
{
	_cleanup_free_ char *target = str_printf("/sandboxes/%s", remote->id);
	json_t *answer = NULL, *internet;
	int r = target ? admin_call(&remote->home, "GET", target, NULL, &answer, e) : -ENOMEM;

	if (r == 0 && json) {
		internet = json_object_get(answer, "allowInternetAccess");
		r = json_print(json_pack("{s:s, s:O*, s:O*, s:O*}", "id", remote->id,
				       "allow_internet_access", internet, "network",
				       json_object_get(answer, "network"), "network_floors",
				       json_object_get(answer, "networkFloors")),
			e);
	} else if (r == 0) {
		r = print(answer, e);
	}
	json_decref(answer);
	return r;
}

static int change(const struct remote *remote, const json_t *body, struct error *e)
{
	_cleanup_free_ char *target = str_printf("/sandboxes/%s/network", remote->id);

	return target ? admin_call(&remote->home, "PUT", target, body, NULL, e) : -ENOMEM;
}

/* The daemon may have gone since the sandbox was found. */
static int explain(const struct remote *remote, int r, struct error *e)
{
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		return client_no_daemon(&remote->home, e);
	return r == -ENOMEM ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct options *o = values;
	struct remote remote = REMOTE_INIT;
	json_t *body = NULL;
	int r = states_check_count(
		argc, 1, 1, "give the id of a sandbox: mayfly network [OPTION]... ID", e);

	if (r == 0)
		r = network_options_body(&o->network, &body, e);
	if (r == 0)
		r = remote_open(argv[0], &remote, e);
	if (r == 0)
		r = explain(&remote,
			body ? change(&remote, body, e) : show(&remote, o->common.json, e), e);
	json_decref(body);
	remote_close(&remote);
	return r;
}

const struct cli_verb cli_verb_network = {
	.name = "network",
	.arguments = "ID",
	.summary = "Show or change what a sandbox may reach",
	.description = "Without options, shows the settings. Options replace all earlier settings; "
		       "--network on\n"
		       "allows everything again. HOST is a name, *.name, an IPv4 address or a "
		       "range. Connections\n"
		       "that are no longer allowed end. The operator's limits (mayfly serve "
		       "--network) always apply.",
	.options = options,
	.values_bytes = sizeof(struct options),
	.run = run,
};
