#include "oci/reference.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define LOWER	    "abcdefghijklmnopqrstuvwxyz"
#define UPPER	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS	    "0123456789"
#define LOWER_ALNUM LOWER DIGITS
#define ALNUM	    LOWER UPPER DIGITS

enum { PORT_MAX = 65535 };

/* --- registries --- */

static bool is_label(const char *s, size_t n)
{
	return n > 0 && n <= 63 && strspn(s, ALNUM "-") >= n && s[0] != '-' && s[n - 1] != '-';
}

static bool is_host_name(const char *s, size_t n)
{
	size_t at = 0;

	while (at < n) {
		size_t k = strcspn(s + at, ".");

		k = k < n - at ? k : n - at;
		if (!is_label(s + at, k))
			return false;
		at += k + 1;
	}
	return at == n + 1; /* no dot at the end */
}

/* "[address]" of IPv6; *ret: its length with the brackets. */
static bool is_bracketed(const char *s, size_t *ret)
{
	char address[INET6_ADDRSTRLEN];
	struct in6_addr ignored;
	size_t n = strcspn(s, "]");

	if (s[0] != '[' || s[n] != ']' || n - 1 >= sizeof(address))
		return false;
	memcpy(address, s + 1, n - 1);
	address[n - 1] = '\0';
	*ret = n + 1;
	return inet_pton(AF_INET6, address, &ignored) == 1;
}

bool oci_registry_valid(const char *text)
{
	size_t n = strcspn(text, ":");
	uint64_t port;

	if (strlen(text) >= OCI_REGISTRY_MAX)
		return false;
	if (*text == '[' ? !is_bracketed(text, &n) : !is_host_name(text, n))
		return false;
	if (text[n] == '\0')
		return true;
	return text[n] == ':' && str_parse_u64(text + n + 1, &port) == 0 && port > 0 &&
	       port <= PORT_MAX;
}

static const char hub[] = "registry-1.docker.io"; /* where its API is */

bool oci_registry_is_hub(const char *text, size_t n)
{
	static const char *const names[] = {hub, "docker.io", "index.docker.io"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0)
			return true;
	return false;
}

static bool looks_like_registry(const char *s, size_t n)
{
	return memchr(s, '.', n) || memchr(s, ':', n) || (n == 9 && memcmp(s, "localhost", n) == 0);
}

/* --- repositories and tags --- */

/* How long the separator at s is: ".", "_", "__" or dashes; 0 when there is none. */
static size_t separator(const char *s)
{
	if (*s == '.')
		return 1;
	if (*s == '_')
		return s[1] == '_' ? 2 : 1;
	return strspn(s, "-");
}

/* How much of s is a component: alphanumeric parts with separators between them. */
static size_t component(const char *s)
{
	size_t at = strspn(s, LOWER_ALNUM);

	while (at > 0) {
		size_t gap = separator(s + at), part = gap ? strspn(s + at + gap, LOWER_ALNUM) : 0;

		if (part == 0)
			break;
		at += gap + part;
	}
	return at;
}

static bool is_repository(const char *s)
{
	for (;;) {
		size_t n = component(s);

		if (n == 0)
			return false;
		if (s[n] == '\0')
			return true;
		if (s[n] != '/')
			return false;
		s += n + 1;
	}
}

static bool tag_valid(const char *text)
{
	size_t n = strspn(text, ALNUM "_.-");

	return n > 0 && n < OCI_TAG_MAX && text[n] == '\0' && *text != '.' && *text != '-';
}

/* --- the whole --- */

static int bad(struct error *e, const char *text, const char *what)
{
	char shown[120];

	(void)snprintf(shown, sizeof(shown), "%s", text); /* a long one is cut */
	for (char *p = shown; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return error_set(
		e, ERROR_USAGE, EINVAL, "'%s' is not the name of an image: %s", shown, what);
}

/* Cuts the digest and the tag off the name. */
static int take_version(char *name, const char *text, struct oci_reference *r, struct error *e)
{
	char *at = strchr(name, '@'), *colon;

	if (at) {
		*at = '\0';
		if (!oci_digest_valid(at + 1))
			return bad(e, text,
				"what follows @ must be sha256: and 64 hexadecimal digits");
		memcpy(r->digest, at + 1, OCI_DIGEST_MAX);
	}
	colon = strrchr(name, ':');
	if (colon && !strchr(colon, '/')) {
		*colon = '\0';
		if (!tag_valid(colon + 1))
			return bad(e, text, "a tag has 1 to 128 of a-z A-Z 0-9 _ . -");
		memcpy(r->tag, colon + 1, strlen(colon + 1) + 1);
	}
	if (!at && !*r->tag)
		(void)snprintf(r->tag, sizeof(r->tag), "latest");
	return 0;
}

/* Takes the registry off the name; *ret is what follows. */
static int take_registry(char *name, const char *text, const char *registry, const char **ret,
	struct oci_reference *r, struct error *e)
{
	size_t n = strcspn(name, "/");
	const char *host = registry;

	*ret = name;
	if (name[n] == '/' && looks_like_registry(name, n)) {
		name[n] = '\0';
		host = name;
		*ret = name + n + 1;
	}
	if (!host)
		return bad(e, text,
			"it names no registry: write REGISTRY/REPOSITORY:TAG, or give --registry");
	if (!oci_registry_valid(host))
		return bad(e, text, "its registry must be HOST or HOST:PORT");
	memcpy(r->registry, host, strlen(host) + 1); /* fits: it is valid */
	return 0;
}

static int take_repository(
	const char *text, const char *repository, struct oci_reference *r, struct error *e)
{
	const char *folder = "";

	if (oci_registry_is_hub(r->registry, strlen(r->registry))) {
		memcpy(r->registry, hub, sizeof(hub));
		folder = strchr(repository, '/') ? "" : "library/";
	}
	if (strlen(folder) + strlen(repository) >= OCI_REPOSITORY_MAX || !is_repository(repository))
		return bad(e, text,
			"a repository has at most 255 of a-z 0-9 with . _ - between them, and / "
			"between "
			"its parts");
	(void)stpcpy(stpcpy(r->repository, folder), repository); /* fits */
	return 0;
}

int oci_reference_parse(
	const char *text, const char *registry, struct oci_reference *ret, struct error *e)
{
	struct oci_reference r = {.tag = ""};
	char name[OCI_REFERENCE_MAX];
	const char *repository = name;
	int v;

	if (strlen(text) >= sizeof(name))
		return bad(e, text, "it is too long");
	(void)snprintf(name, sizeof(name), "%s", text);
	v = take_version(name, text, &r, e);
	if (v == 0)
		v = take_registry(name, text, registry, &repository, &r, e);
	if (v == 0)
		v = take_repository(text, repository, &r, e);
	if (v == 0)
		*ret = r;
	return v;
}

const char *oci_reference_version(const struct oci_reference *r)
{
	return *r->digest ? r->digest : r->tag;
}
