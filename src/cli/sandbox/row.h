/* One sandbox of this host, combined from its directory and the daemon's entry. Texts are borrowed
 * from the struct known that it comes from. */
#ifndef CLI_ROW_H
#define CLI_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/remote/known.h"

struct row {
	const struct known *known;
	const char *id;
	const struct sandbox_record *record; /* or NULL */
	const json_t *served;		     /* the daemon's entry, or NULL */
};

struct row row_of(const struct known *k, const char *id);

/* "" if there is none, or if it is unknown. */
const char *row_template(const struct row *r);
const char *row_command(const struct row *r);
const char *row_key(const struct row *r); /* its key's name; only for the daemon's */

/* "running", "paused" or "ended", from the daemon or the microVM; "?" if there is no answer. */
const char *row_status(const struct row *r);
/* Whether the daemon has paused it: it has no microVM. */
bool row_is_paused(const struct row *r);

uint64_t row_created_ns(const struct row *r);
uint64_t row_ends_ns(const struct row *r); /* 0: unknown */
unsigned row_cpus(const struct row *r);
uint64_t row_memory_bytes(const struct row *r);
json_t *row_metadata(const struct row *r); /* borrowed, or NULL */

/* JSON for programs. A new reference. */
json_t *row_json(const struct row *r);

#endif
