#include "policy/network_floor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/net.h"
#include "policy/network_document.h"
#include "policy/network_rules.h"

enum { ID_BYTES = 32, RESOLVERS_BYTES_MAX = 64 * 1024, LOGIN_BYTES_MAX = 4096 };

#define BLANK " \t\r"

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

struct network_floor *network_floor_new(void)
{
	struct network_floor *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->rules = json_array();
	f->hosts = json_array();
	f->dns = json_pack("[s]", NETWORK_DNS_DEFAULT);
	if (f->rules && f->hosts && f->dns)
		return f;
	network_floor_free(f);
	return NULL;
}

void network_floor_free(struct network_floor *f)
{
	if (!f)
		return;
	json_decref(f->rules);
	json_decref(f->hosts);
	json_decref(f->dns);
	free(f->roots);
	json_decref(f->proxy);
	json_decref(f->policy);
	free(f);
}

static const char *const mode_words[] = {
	[NETWORK_ON] = "on", [NETWORK_OFF] = "off", [NETWORK_ALLOW_LIST] = "allow-list"};

const char *network_mode_word(enum network_mode mode)
{
	return mode_words[mode];
}

int network_floor_set_mode(struct network_floor *f, const char *word, struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_words); i++)
		if (strcmp(word, mode_words[i]) == 0) {
			f->mode = (enum network_mode)i;
			return 0;
		}
	return error_set(e, ERROR_USAGE, EINVAL,
		"--network: '%.64s' is none of on, off and allow-list", word);
}

struct network_flows network_floor_flows(const struct network_floor *f)
{
	struct network_flows n = f ? f->flows : (struct network_flows){0};

	return (struct network_flows){n.sandbox ? n.sandbox : NETWORK_FLOWS,
		n.key ? n.key : NETWORK_KEY_FLOWS, n.host ? n.host : NETWORK_HOST_FLOWS};
}

/* Checks a number against the greater bound. One that was not given follows that: *given is 0 then,
 * and *n the default. */
static int fit_flows(unsigned *given, unsigned *n, unsigned max, const char *refusal,
	const char *of_max, struct error *e)
{
	if (*n <= max)
		return 0;
	if (*given)
		return error_set(e, ERROR_USAGE, EINVAL, "%s (%u: %s)", refusal, max, of_max);
	*given = *n = max;
	return 0;
}

/* The numbers are within the options' bounds. */
static int take_flows(struct network_floor *f, const struct network_words *words, struct error *e)
{
	struct network_flows n;
	int r;

	f->flows = (struct network_flows){
		(unsigned)words->flows, (unsigned)words->key_flows, (unsigned)words->host_flows};
	n = network_floor_flows(f);
	r = fit_flows(&f->flows.key, &n.key, n.host,
		"--max-key-flows: a key has at most as many as the host", "--max-host-flows", e);
	return r ? r
		 : fit_flows(&f->flows.sandbox, &n.sandbox, n.key,
			   "--max-flows: a sandbox has at most as many as its key",
			   "--max-key-flows", e);
}

static int take_words(struct network_floor *f, const struct network_words *words, struct error *e)
{
	int r = words->mode ? network_floor_set_mode(f, words->mode, e) : 0;

	if (r == 0)
		r = take_flows(f, words, e);
	if (r == 0 && words->allow.count && f->mode != NETWORK_ALLOW_LIST)
		r = error_set(e, ERROR_USAGE, EINVAL,
			"--egress-allow needs --network allow-list, which forbids all else");
	for (unsigned i = 0; r == 0 && i < words->allow.count; i++)
		r = network_floor_allow(f, words->allow.items[i], e);
	for (unsigned i = 0; r == 0 && i < words->private.count; i++)
		r = network_floor_allow_private(f, words->private.items[i], e);
	if (r == 0 && words->hosts)
		r = network_floor_read_hosts(f, words->hosts, e);
	if (r == 0 && words->roots)
		r = network_floor_set_roots(f, words->roots, e);
	if (r == 0 && words->proxy_login && !words->proxy)
		r = error_set(e, ERROR_USAGE, EINVAL,
			"--egress-proxy-login needs --egress-proxy, which says where");
	if (r == 0 && words->policy)
		r = network_document_read(words->policy, "--policy", &f->policy, NULL, e);
	if (r == 0 && words->policy)
		r = network_document_no_secrets(f->policy, "--policy", e);
	if (r == 0 && words->proxy)
		r = network_floor_set_proxy(f, words->proxy, words->proxy_login, e);
	return r;
}

int network_floor_make(
	const struct network_words *words, struct network_floor **ret, struct error *e)
{
	struct network_floor *f = network_floor_new();
	int r = f ? take_words(f, words, e) : no_memory(e);

	if (r < 0) {
		network_floor_free(f);
		return r;
	}
	network_floor_read_resolvers(f, "/etc/resolv.conf");
	*ret = f;
	return 0;
}

json_t *network_rule(const char *id, const char *action, const struct network_target *t)
{
	char net[NETWORK_NET_BYTES];
	json_t *rule = t->host[0] ? json_pack("{s:s, s:s, s:s}", "id", id, "action", action, "host",
					    t->host)
				  : json_pack("{s:s, s:s, s:s}", "id", id, "action", action, "net",
					    network_net_text(t, net));

	if (rule && t->port &&
		json_object_set_new(rule, "ports", json_pack("[i]", (int)t->port)) < 0) {
		json_decref(rule);
		return NULL;
	}
	return rule;
}

int network_floor_allow(struct network_floor *f, const char *text, struct error *e)
{
	size_t n = json_array_size(f->rules);
	struct network_target t;
	const char *reason;
	char id[ID_BYTES];

	if (n >= NETWORK_ALLOW_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "--egress-allow: %d at most", NETWORK_ALLOW_MAX);
	if (network_target_parse(text, true, &t, &reason) < 0)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--egress-allow: '%.160s': %s", text, reason);
	(void)snprintf(id, sizeof(id), "operator[%zu]", n); /* fits */
	return json_array_append_new(f->rules, network_rule(id, "allow", &t)) < 0 ? no_memory(e)
										  : 0;
}

int network_floor_allow_private(struct network_floor *f, const char *text, struct error *e)
{
	struct network_target *t = &f->private[f->private_count];
	const char *reason = "it must be addresses, such as 10.1.0.0/16";

	if (f->private_count >= NETWORK_PRIVATE_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "--egress-allow-private: %d at most",
			NETWORK_PRIVATE_MAX);
	if (network_target_parse(text, false, t, &reason) < 0 || t->host[0])
		return error_set(e, ERROR_USAGE, EINVAL, "--egress-allow-private: '%.160s': %s",
			text, reason);
	f->private_count++;
	return 0;
}

bool network_floor_forbids(const struct network_floor *f, const struct network_target *t)
{
	for (unsigned i = 0; f && i < f->private_count; i++)
		if (network_net_is_within(t, &f->private[i]))
			return false;
	return network_net_is_private(t);
}

/* --- the file of hosts --- */

/* Cuts the next word off *line; NULL at its end. */
static char *next_word(char **line)
{
	char *s = *line + strspn(*line, BLANK), *end = s + strcspn(s, BLANK);

	if (end == s)
		return NULL;
	*line = *end ? end + 1 : end;
	*end = '\0';
	return s;
}

static bool has_host(const struct network_floor *f, const char *name)
{
	size_t i;
	json_t *host;

	json_array_foreach(f->hosts, i,
		host) if (strcmp(json_string_value(json_object_get(host, "name")), name) ==
			  0) return true;
	return false;
}

static int add_host(
	struct network_floor *f, const char *text, const struct network_target *to, struct error *e)
{
	char name[NETWORK_HOST_MAX + 1], address[NET_TEXT_BYTES];
	const char *reason;
	json_t *host;

	if (network_name_parse(text, name, &reason) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "'%.160s': %s", text, reason);
	if (has_host(f, name))
		return error_set(e, ERROR_USAGE, EINVAL, "'%s' was there before", name);
	if (json_array_size(f->hosts) >= NETWORK_HOSTS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d names", NETWORK_HOSTS_MAX);
	host = json_pack("{s:s, s:s}", "name", name, "address", net_format(to->net, address));
	if (host && to->port)
		(void)json_object_set_new(host, "port", json_integer(to->port));
	return json_array_append_new(f->hosts, host) < 0 ? no_memory(e) : 0;
}

static int take_line(struct network_floor *f, char *line, struct error *e)
{
	const char *reason = "it must be ADDRESS or ADDRESS:PORT", *name;
	char *address = next_word(&line);
	struct network_target to;
	unsigned count = 0;
	int r = 0;

	if (!address)
		return 0;
	if (network_target_parse(address, true, &to, &reason) < 0 || to.host[0] || to.bits != 32)
		return error_set(e, ERROR_USAGE, EINVAL, "'%.160s': %s", address, reason);
	for (; r == 0 && (name = next_word(&line)); count++)
		r = add_host(f, name, &to, e);
	if (r == 0 && !count)
		r = error_set(e, ERROR_USAGE, EINVAL, "no name follows the address");
	return r;
}

int network_floor_read_hosts(struct network_floor *f, const char *path, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	unsigned number = 1;
	int r = file_read(AT_FDCWD, path, NETWORK_HOSTS_BYTES_MAX, &text, &n);

	if (r < 0)
		return error_set_errno(
			e, ERROR_USAGE, -r, "--egress-hosts: cannot read %.200s", path);
	if (strlen(text) != n)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--egress-hosts: %.200s is no text file", path);
	for (char *line = text, *next; r == 0 && line; line = next, number++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line[strcspn(line, "#")] = '\0';
		r = take_line(f, line, e);
		if (r < 0)
			error_prefix(e, "--egress-hosts: %.200s, line %u", path, number);
	}
	return r;
}

/* --- authorities of TLS servers --- */

int network_floor_set_roots(struct network_floor *f, const char *path, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r = file_read(AT_FDCWD, path, NETWORK_ROOTS_BYTES_MAX, &text, &n);

	if (r < 0)
		return error_set_errno(
			e, ERROR_USAGE, -r, "--egress-roots: cannot read %.200s", path);
	if (!strstr(text, "-----BEGIN CERTIFICATE-----"))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--egress-roots: %.200s has no certificate: give one in PEM", path);
	f->roots = realpath(path, NULL);
	return f->roots ? 0
			: error_set_errno(e, ERROR_USAGE, errno, "--egress-roots: %.200s", path);
}

/* --- the proxy --- */

json_t *network_proxy(const struct network_target *t)
{
	char address[NET_TEXT_BYTES];

	return json_pack("{s:s, s:i}", "host", t->host[0] ? t->host : net_format(t->net, address),
		"port", (int)t->port);
}

static int no_login(const char *path, struct error *e)
{
	return error_set(e, ERROR_USAGE, EINVAL,
		"--egress-proxy-login: %.200s must have one line USER:PASSWORD, each of 1 to %d "
		"bytes",
		path, NETWORK_CREDENTIAL_MAX);
}

/* The text is a secret: no message quotes it. */
static int take_login(json_t *proxy, char *text, const char *path, struct error *e)
{
	char *password;

	text[strcspn(text, "\r\n")] = '\0';
	password = strchr(text, ':');
	if (!password || password == text || !password[1])
		return no_login(path, e);
	*password++ = '\0';
	if (strlen(text) > NETWORK_CREDENTIAL_MAX || strlen(password) > NETWORK_CREDENTIAL_MAX)
		return no_login(path, e);
	if (json_object_set_new(proxy, "username", json_stringn_nocheck(text, strlen(text))) < 0 ||
		json_object_set_new(
			proxy, "password", json_stringn_nocheck(password, strlen(password))) < 0)
		return no_memory(e);
	return 0;
}

static int read_login(json_t *proxy, const char *path, struct error *e)
{
	char *text = NULL;
	size_t n = 0;
	int r = file_read(AT_FDCWD, path, LOGIN_BYTES_MAX, &text, &n);

	if (r < 0)
		return error_set_errno(
			e, ERROR_USAGE, -r, "--egress-proxy-login: cannot read %.200s", path);
	r = strlen(text) == n ? take_login(proxy, text, path, e) : no_login(path, e);
	explicit_bzero(text, n);
	free(text);
	return r;
}

int network_floor_set_proxy(
	struct network_floor *f, const char *address, const char *login, struct error *e)
{
	struct network_target t;
	const char *reason = "it is not HOST:PORT";

	if (network_target_parse(address, true, &t, &reason) < 0 || !t.port || t.host[0] == '*' ||
		(!t.host[0] && t.bits != 32))
		return error_set(
			e, ERROR_USAGE, EINVAL, "--egress-proxy: '%.160s': %s", address, reason);
	json_decref(f->proxy); /* the last one given counts */
	f->proxy = network_proxy(&t);
	if (!f->proxy || json_object_set_new(f->proxy, "trusted", json_true()) < 0)
		return no_memory(e);
	return login ? read_login(f->proxy, login, e) : 0;
}

/* --- resolvers --- */

void network_floor_read_resolvers(struct network_floor *f, const char *path)
{
	_cleanup_free_ char *text = NULL;
	json_t *found = json_array();
	size_t n;

	if (file_read(AT_FDCWD, path, RESOLVERS_BYTES_MAX, &text, &n) == 0)
		for (char *line = text, *next; line; line = next) {
			const char *word, *value;
			uint32_t a;

			next = strchr(line, '\n');
			if (next)
				*next++ = '\0';
			word = next_word(&line);
			value = word && strcmp(word, "nameserver") == 0 ? next_word(&line) : NULL;
			if (value && net_parse_address(value, &a) == 0 &&
				json_array_size(found) < NETWORK_DNS_MAX)
				(void)json_array_append_new(
					found, json_string(value)); /* fewer do */
		}
	if (json_array_size(found)) {
		json_decref(f->dns);
		f->dns = json_incref(found);
	}
	json_decref(found);
}
