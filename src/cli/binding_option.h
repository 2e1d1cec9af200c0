/* Parses the value of an option that binds something to hosts: NAME=VALUE@HOST[,HOST]... */
#ifndef CLI_BINDING_OPTION_H
#define CLI_BINDING_OPTION_H

#include <jansson.h>

struct binding_option {
	char *name; /* owned; value points into it */
	const char *value;
	json_t *hosts; /* owned: an array of at least one string */
};

/* The last '@' separates the hosts. Returns 0, -EINVAL if the text has another form, or -ENOMEM. */
int binding_option_read(const char *text, struct binding_option *ret);
void binding_option_done(struct binding_option *b);

/* Makes an array of the hosts in HOST[,HOST]... Changes the text. Returns NULL when out of
 * memory. */
json_t *binding_hosts(char *text);

#endif
