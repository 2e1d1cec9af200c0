#include "sandbox/trust_bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_call.h"

#define BEGIN "# begin of Mayfly's authorities\n"
#define END   "# end of Mayfly's authorities\n"

const char *const trust_places[TRUST_PLACES] = {TRUST_BUNDLE, "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

const struct trust_variable trust_variables[TRUST_VARIABLES] = {
	{"SSL_CERT_FILE", true},
	{"REQUESTS_CA_BUNDLE", true},
	{"CURL_CA_BUNDLE", true},
	{"GIT_SSL_CAINFO", true},
	{"PIP_CERT", true},
	{"NODE_EXTRA_CA_CERTS", false},
	{"DENO_CERT", false},
};

/* --- the text --- */

bool trust_bundle_has_copy(const void *text, size_t n)
{
	return memmem(text, n, END, strlen(END)) != NULL;
}

int trust_bundle_compose(const void *old, size_t n, const char *ours, struct buf *out)
{
	const char *text = old, *begin = n ? memmem(text, n, BEGIN, strlen(BEGIN)) : NULL,
		   *end = begin ? memmem(begin, n - (size_t)(begin - text), END, strlen(END))
				: NULL;
	size_t kept = end ? (size_t)(begin - text) : n;
	int r = kept ? buf_add(out, text, kept) : 0;

	if (r == 0 && end) {
		end += strlen(END);
		r = buf_add(out, end, n - (size_t)(end - text));
	}
	if (r == 0 && buf_len(out) && buf_head(out)[buf_len(out) - 1] != '\n')
		r = buf_add_u8(out, '\n');
	return r == 0 ? buf_printf(out, "%s%s\n%s", BEGIN, ours, END) : r;
}

int trust_bundle_compose_end(const void *end, size_t n, const char *ours, struct buf *out)
{
	const char *text = end;
	bool whole = n && text[n - 1] == '\n';

	return buf_printf(out, "%s%s%s\n%s", whole ? "" : "\n", BEGIN, ours, END);
}

/* --- in a guest --- */

struct installing {
	struct agent_conn *c;
	uint64_t deadline_ns;
	struct error *e;
};

static int write_file(const struct installing *i, const char *path, const void *data, size_t n)
{
	const struct agent_write m = {
		.flags = AGENT_WRITE_PARENTS, .mode = 0644, .user = "root", .path = path};

	return agent_write_file(i->c, i->deadline_ns, &m, data, n, i->e);
}

/* Follows links. NULL: it is not there. */
static char *find(const struct installing *i, const char *place)
{
	const struct agent_stat m = {.flags = AGENT_STAT_RESOLVE, .user = "root", .path = place};
	struct agent_event ev;

	if (agent_call(i->c, i->deadline_ns, AGENT_STAT, &m, AGENT_ENTRY, &ev, NULL) < 0)
		return NULL;
	return strdup(*ev.entry.resolved ? ev.entry.resolved : place);
}

static int install_at(
	const struct installing *i, const char *path, bool exists, bool copy, const char *ours)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(TRUST_BUNDLE_MAX);
	_cleanup_free_ uint8_t *old = NULL;
	size_t n = 0;
	int r = exists ? agent_read_file(
				 i->c, i->deadline_ns, path, TRUST_BUNDLE_MAX, &old, &n, i->e)
		       : 0;

	if (r == 0 && trust_bundle_compose(old, n, ours, &out) < 0)
		r = error_set(i->e, ERROR_LIMIT, EFBIG,
			"the image's bundle of authorities has more than %d bytes",
			TRUST_BUNDLE_MAX);
	if (r == 0)
		r = write_file(i, path, buf_head(&out), buf_len(&out));
	if (r == 0 && copy)
		r = write_file(i, TRUST_BUNDLE, buf_head(&out), buf_len(&out));
	return r == 0 ? write_file(i, TRUST_FILE, ours, strlen(ours)) : r;
}

int trust_bundle_install(
	struct agent_conn *c, uint64_t deadline_ns, const char *ours, struct error *e)
{
	const struct installing i = {c, deadline_ns, e};
	_cleanup_free_ char *path = NULL;
	unsigned place = 0;

	while (place < TRUST_PLACES && !path) {
		path = find(&i, trust_places[place]);
		place++;
	}
	if (!path)
		return install_at(&i, TRUST_BUNDLE, false, false, ours);
	return install_at(&i, path, true, place > 1 && !str_ends_with(path, TRUST_BUNDLE), ours);
}
