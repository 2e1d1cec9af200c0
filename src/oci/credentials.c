#include "oci/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "oci/reference.h"
#include "proto/base64.h"
#include "proto/json_tree.h"

/* Whether text is "user:password" without characters that a header cannot have. */
static bool usable(const char *text)
{
	return strchr(text, ':') && *text != ':' && strlen(text) < OCI_CREDENTIALS_MAX &&
	       !strpbrk(text, "\r\n");
}

/* Takes n bytes of "USER:PASSWORD". 0, or -EINVAL if they are not that: then there are none. */
static int take_text(const void *text, size_t n, struct oci_credentials *ret)
{
	*ret = (struct oci_credentials){.helper = false};
	if (n >= sizeof(ret->text) || memchr(text, 0, n))
		return -EINVAL;
	memcpy(ret->text, text, n);
	if (usable(ret->text))
		return 0;
	explicit_bzero(ret->text, sizeof(ret->text));
	return -EINVAL;
}

/* USER:PASSWORD, or an access key of AWS with its region. */
static int take_line(const char *line, struct oci_credentials *ret)
{
	static const char aws[] = "aws://";
	char region[OCI_REGION_MAX] = "";
	size_t n = 0;
	int r;

	if (str_starts_with(line, aws)) {
		line += sizeof(aws) - 1;
		n = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789-");
		if (n == 0 || n >= sizeof(region) || line[n] != '/')
			return -EINVAL;
		memcpy(region, line, n);
		line += n + 1;
	}
	r = take_text(line, strlen(line), ret);
	memcpy(ret->region, region, sizeof(region));
	return r;
}

int oci_credentials_parse(const char *option, struct oci_credentials *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (*option == '@')
		r = file_read(AT_FDCWD, option + 1, OCI_CREDENTIALS_MAX, &text, NULL);
	if (r < 0)
		return error_set_errno(
			e, ERROR_USAGE, -r, "--registry-auth: cannot read %.200s", option + 1);
	if (text)
		text[strcspn(text, "\r\n")] = '\0';
	r = take_line(text ? text : option, ret);
	if (text)
		explicit_bzero(text, strlen(text));
	return r < 0 ? error_set(e, ERROR_USAGE, EINVAL,
			       "--registry-auth must be USER:PASSWORD, aws://REGION/ID:SECRET, or "
			       "@FILE with one of these in it")
		     : 0;
}

/* Docker's keys are registries, some with a scheme and a path. That of Docker Hub is
 * https://index.docker.io/v1/. */
static bool is_for(const char *key, const char *registry)
{
	const char *host = strstr(key, "://");
	size_t n = strlen(registry), of_key;

	host = host ? host + 3 : key;
	of_key = strcspn(host, "/");
	if (oci_registry_is_hub(registry, n))
		return oci_registry_is_hub(host, of_key);
	return of_key == n && memcmp(host, registry, n) == 0;
}

static void take(const json_t *entry, struct oci_credentials *c)
{
	const char *auth = json_string_value(json_object_get(entry, "auth"));
	const char *user = json_string_value(json_object_get(entry, "username"));
	const char *password = json_string_value(json_object_get(entry, "password"));
	uint8_t decoded[OCI_CREDENTIALS_MAX + 4];
	ptrdiff_t n = -1;

	if (auth && base64_decoded_max(strlen(auth)) < sizeof(decoded))
		n = base64_decode(decoded, auth, strlen(auth));
	if (n > 0)
		(void)take_text(decoded, (size_t)n, c);
	else if (user && password &&
		 snprintf(c->text, sizeof(c->text), "%s:%s", user, password) >= OCI_CREDENTIALS_MAX)
		c->text[0] = '\0';
	explicit_bzero(decoded, sizeof(decoded));
	if (!usable(c->text))
		c->text[0] = '\0';
}

void oci_credentials_of_docker(
	const char *text, size_t n, const char *registry, struct oci_credentials *ret)
{
	const char *reason, *key;
	json_t *o = json_tree_parse(text, n, JSON_TREE_NO_NUL, &reason), *entry;

	*ret = (struct oci_credentials){.helper = false};
	json_object_foreach(json_object_get(o, "auths"), key, entry)
	{
		if (!*ret->text && is_for(key, registry))
			take(entry, ret);
	}
	ret->helper = json_object_get(o, "credsStore") ||
		      json_object_get(json_object_get(o, "credHelpers"), registry);
	json_decref(o);
}

void oci_credentials_find(const char *registry, struct oci_credentials *ret)
{
	const char *folder = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	_cleanup_free_ char *path = NULL, *text = NULL;
	size_t n = 0;

	*ret = (struct oci_credentials){.helper = false};
	if (folder && *folder)
		path = str_printf("%s/config.json", folder);
	else if (home && *home)
		path = str_printf("%s/.docker/config.json", home);
	if (!path || file_read(AT_FDCWD, path, OCI_DOCKER_CONFIG_MAX, &text, &n) < 0)
		return;
	oci_credentials_of_docker(text, n, registry, ret);
	explicit_bzero(text, n);
}

void oci_credentials_done(struct oci_credentials *c)
{
	explicit_bzero(c, sizeof(*c));
}
