/* The plain HTTP endpoints of envd (docs/envd.md). Each handles an authorised request to a running
 * sandbox. */
#ifndef ENVD_HTTP_H
#define ENVD_HTTP_H

#include "envd/envd_call.h"

void envd_get_file(struct request *r, const struct instance *i);   /* GET, HEAD /files */
void envd_post_files(struct request *r, const struct instance *i); /* POST /files */
void envd_compose(struct request *r, const struct instance *i);	   /* POST /files/compose */
void envd_health(struct request *r, const struct instance *i);
void envd_envs(struct request *r, const struct instance *i);
void envd_metrics(struct request *r, const struct instance *i);

void envd_delete_file(struct request *r, const struct instance *i); /* r->file, or a directory */

/* Decodes `path` and `username` of the query; "" if absent. r->file takes the place of `path`. The
 * caller frees both. Returns 0, or -errno with *e. */
int envd_file_query(
	const struct request *r, char **ret_path, char **ret_user, struct envd_error *e);
/* Reads `mode` of the query, octal permission bits. Without it *ret is unchanged. */
int envd_mode_query(const char *query, uint32_t *ret, struct envd_error *e);

#endif
