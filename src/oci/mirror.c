#include "oci/mirror.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Any repository: parsing a reference checks registry and path, and knows the names of Docker
 * Hub. */
#define ANY "any/name"

static int bad(const char *text, struct error *e)
{
	return error_set(e, ERROR_USAGE, EINVAL,
		"'%.200s' is not a mirror: write HOST[:PORT][/PATH] for one of Docker Hub, "
		"REGISTRY=HOST[:PORT][/PATH] for one of another registry",
		text);
}

/* The registry that n bytes of text name, as references have it. */
static int take_of(const char *text, size_t n, char ret[OCI_REGISTRY_MAX])
{
	char name[OCI_REFERENCE_MAX];
	struct oci_reference r;

	if (n >= OCI_REGISTRY_MAX)
		return -EINVAL;
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, text); /* fits */
	if (!oci_registry_valid(name) || oci_reference_parse(ANY, name, &r, NULL) < 0)
		return -EINVAL;
	memcpy(ret, r.registry, sizeof(r.registry));
	return 0;
}

/* [https://]HOST[:PORT][/PATH] */
static int take_at(const char *text, struct oci_mirror *m)
{
	static const char https[] = "https://";
	size_t host;
	char name[OCI_REFERENCE_MAX];
	struct oci_reference r;

	text += str_starts_with(text, https) ? sizeof(https) - 1 : 0;
	host = strcspn(text, "/");
	if (strlen(text) >= sizeof(name) - sizeof(ANY) || take_of(text, host, m->at) < 0)
		return -EINVAL;
	if (text[host] == '\0' || strcmp(text + host, "/") == 0)
		return 0;
	(void)snprintf(name, sizeof(name), "%s/" ANY, text + host + 1); /* fits */
	if (oci_reference_parse(name, m->at, &r, NULL) < 0 || strcmp(r.registry, m->at) != 0 ||
		*r.digest || strcmp(r.tag, "latest") != 0)
		return -EINVAL;
	(void)snprintf(m->path, sizeof(m->path), "%.*s/",
		(int)(strlen(r.repository) - sizeof("/" ANY) + 1), r.repository); /* fits */
	return 0;
}

static int add(struct oci_mirrors *m, const char *text, struct error *e)
{
	static const char hub[] = "docker.io";
	struct oci_mirror item = {.path = ""};
	const char *equals = strchr(text, '=');
	int r = equals ? take_of(text, (size_t)(equals - text), item.of)
		       : take_of(hub, sizeof(hub) - 1, item.of);

	if (r == 0)
		r = take_at(equals ? equals + 1 : text, &item);
	if (r < 0)
		return bad(text, e);
	if (m->count == OCI_MIRRORS_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "there are more than %d mirrors", OCI_MIRRORS_MAX);
	m->items[m->count++] = item;
	return 0;
}

int oci_mirrors_parse(const struct option_list *list, struct oci_mirrors *ret, struct error *e)
{
	int r = 0;

	ret->count = 0;
	for (unsigned i = 0; i < list->count && r == 0; i++)
		r = add(ret, list->items[i], e);
	return r;
}

int oci_mirrors_check(const struct option_list *list, struct error *e)
{
	struct oci_mirrors m;

	return oci_mirrors_parse(list, &m, e);
}

bool oci_mirrors_next(const struct oci_mirrors *m, unsigned *at, const struct oci_reference *r,
	struct oci_reference *ret)
{
	while (*at < m->count) {
		const struct oci_mirror *item = &m->items[(*at)++];

		if (strcmp(item->of, r->registry) != 0 ||
			strlen(item->path) + strlen(r->repository) >= sizeof(ret->repository))
			continue;
		*ret = *r;
		memcpy(ret->registry, item->at, sizeof(item->at));
		(void)stpcpy(stpcpy(ret->repository, item->path), r->repository); /* fits */
		return true;
	}
	return false;
}
