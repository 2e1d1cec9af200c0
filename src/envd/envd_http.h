/* The plain HTTP endpoints of envd (protocol section 3.8). Each is called for an allowed request to
 * a running sandbox. */
#ifndef DAEMON_ENVD_HTTP_H
#define DAEMON_ENVD_HTTP_H

#include "envd/envd_call.h"

void envd_get_file(struct request *r, const struct instance *i);   /* GET, HEAD /files */
void envd_post_files(struct request *r, const struct instance *i); /* POST /files */
void envd_compose(struct request *r, const struct instance *i);	   /* POST /files/compose */
void envd_health(struct request *r, const struct instance *i);
void envd_envs(struct request *r, const struct instance *i);
void envd_metrics(struct request *r, const struct instance *i);

/* `path` and `username` of the query, decoded; "" when absent. Both are malloc'ed and must be
 * freed. 0 or -errno with *e. */
int envd_file_query(const char *query, char **ret_path, char **ret_user, struct envd_error *e);
/* `mode` of the query, octal permission bits; without it *ret is left alone. */
int envd_mode_query(const char *query, uint32_t *ret, struct envd_error *e);

#endif
