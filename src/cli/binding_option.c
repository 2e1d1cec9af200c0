#include "cli/binding_option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

json_t *binding_hosts(char *text)
{
	json_t *hosts = json_array();
	char *host;

	while ((host = strsep(&text, ",")))
		(void)json_array_append_new(hosts, json_string(host)); /* the daemon misses it */
	return hosts;
}

int binding_option_read(const char *text, struct binding_option *ret)
{
	char *name = strdup(text), *value = name ? strchr(name, '=') : NULL;
	char *hosts = value ? strrchr(value, '@') : NULL;

	*ret = (struct binding_option){.name = name, .value = value ? value + 1 : NULL};
	if (!name)
		return -ENOMEM;
	if (!hosts || value == name || hosts == value + 1 || !hosts[1])
		return -EINVAL;
	*value = '\0';
	*hosts = '\0';
	ret->hosts = binding_hosts(hosts + 1);
	return ret->hosts ? 0 : -ENOMEM;
}

void binding_option_done(struct binding_option *b)
{
	free(b->name);
	json_decref(b->hosts);
}
