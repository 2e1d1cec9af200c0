/* Fields by which a form, or a query, replaces the method of its request. Many frameworks take a
 * field `_method` of a POST for it: Rails, Laravel, Symfony, Spring, and Express with
 * method-override. Some take X-HTTP-Method-Override.
 *
 * Servers read forms in different ways. So a field counts if one known reader could take it for
 * such a field: in any case, percent-encoded, behind blanks or brackets, with dots or brackets for
 * underscores. In forms of several parts, the borders do not count: each header Content-Disposition
 * or Content-ID does, wherever it stands.
 *
 * Nothing here keeps anything. The time is linear: some 10 ms for a body of 4 MiB, 80 ms for the
 * worst one. */
#ifndef RULES_FORM_H
#define RULES_FORM_H

#include <stdbool.h>
#include <stddef.h>

struct http_headers;

/* Whether a server may read a body with these headers as a form: their type is that of a form, or
 * they have no type. */
bool form_is_likely(const struct http_headers *headers);

/* Whether such a body cannot be read here: it is compressed, or its letters are not ASCII's. */
bool form_is_hidden(const struct http_headers *headers);

/* Whether fields as in a query ("a=1&_method=PUT") replace the method. */
bool form_query_has_method(const char *query, size_t n);

/* The same for the whole body of a form, of either type. */
bool form_has_method(const void *body, size_t n);

/* Whether a body may have parts: its type says so (NULL: no headers), or there is a header of
 * one. */
bool form_has_parts(const struct http_headers *headers, const void *body, size_t n);

#endif
