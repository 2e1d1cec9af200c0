/* Names of ports in other sandboxes: PORT-SANDBOX.mayfly.internal, where SANDBOX is an id, or the
 * value of the metadata `name`. No such name is ever asked of a resolver. */
#ifndef RULES_BETWEEN_NAME_H
#define RULES_BETWEEN_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define BETWEEN_DOMAIN ".mayfly.internal"

enum { BETWEEN_LABEL_BYTES = 64 };

/* Whether a name in lower case is below BETWEEN_DOMAIN, well-formed or not. */
bool between_name_is(const char *name);

/* What it stands for. Returns 0 or -EINVAL. */
int between_name_parse(const char *name, uint16_t *ret_port, char ret_to[BETWEEN_LABEL_BYTES]);

#endif
