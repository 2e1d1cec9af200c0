/* Builds the body of POST /v2/sandboxes from the options that create, run and shell share. */
#ifndef CLI_CREATE_H
#define CLI_CREATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct create_order {
	const char *template;
	uint64_t timeout_ns;	     /* rounded up to seconds */
	uint64_t cpus, memory, disk; /* in bytes; 0: the template's */
	json_t *env, *metadata;	     /* borrowed objects, or NULL */
	bool auto_pause, auto_resume;
	const json_t *network; /* of network_options_body(), or NULL: the daemon's default */
	json_t *secrets;       /* of secret_options_body(), or NULL */
	json_t *files_outside; /* array of directories, or NULL */
	json_t *iam;	       /* of identity_options_body(), or NULL */
};

/* Returns NULL if a text is not valid UTF-8. */
json_t *create_body(const struct create_order *o);

#endif
