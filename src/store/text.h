/* Inside the store: checks of text from callers. All give ERROR_USAGE -EINVAL with the name of the
 * field, never its value, which may be secret. */
#ifndef STORE_TEXT_H
#define STORE_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* 1-STORE_ID_MAX of a-z 0-9. */
bool text_is_id(const char *s);

/* 1-max bytes of UTF-8. */
int text_check(const char *field, const char *s, size_t max, struct error *e);
/* The same, or NULL. */
int text_check_optional(const char *field, const char *s, size_t max, struct error *e);

/* Checks a JSON object of at most STORE_JSON_MAX bytes, or NULL. With `strings`, all values must be
 * strings. ret (may be NULL) gets the object, or NULL; release it with json_decref. */
int text_check_json(const char *field, const char *s, bool strings, json_t **ret, struct error *e);

#endif
