#include "cli/sandbox/secret_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static json_t *hosts_of(char *text)
{
	json_t *hosts = json_array();
	char *host;

	while ((host = strsep(&text, ",")))
		(void)json_array_append_new(hosts, json_string(host)); /* the daemon misses it */
	return hosts;
}

/* text is taken apart. */
static int add(json_t *all, const char *option, char *text, struct error *e)
{
	char *name = strchr(text, '='), *hosts = name ? strchr(name, '@') : NULL;

	if (!hosts || name == text || hosts == name + 1 || !hosts[1])
		return error_set(e, ERROR_USAGE, EINVAL,
			"--secret '%.64s': expected VARIABLE=NAME@HOST[,HOST]..., and not the "
			"secret itself: see mayfly secrets set",
			option);
	*name++ = '\0';
	*hosts++ = '\0';
	if (json_object_get(all, text))
		return error_set(e, ERROR_USAGE, EINVAL, "--secret: %.64s is given twice", text);
	return json_object_set_new(all, text,
		       json_pack("{s:s, s:o}", "secret", name, "hosts", hosts_of(hosts))) < 0
		       ? error_set(e, ERROR_USAGE, EINVAL, "--secret must be valid UTF-8")
		       : 0;
}

int secret_options_body(const struct option_list *list, json_t **ret, struct error *e)
{
	json_t *all = list->count ? json_object() : NULL;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < list->count; i++) {
		_cleanup_free_ char *copy = strdup(list->items[i]);

		r = copy ? add(all, list->items[i], copy, e)
			 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	if (r == 0)
		*ret = all;
	else
		json_decref(all);
	return r;
}
