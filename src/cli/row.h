/* One sandbox of this host, from what its directory and the daemon say of it. Texts are borrowed from
 * the struct known it came from. */
#ifndef CLI_ROW_H
#define CLI_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/known.h"

struct row {
	const struct known *known;
	const char *id;
	const struct sandbox_record *record; /* or NULL */
	const json_t *served;		     /* the daemon's word, or NULL */
};

struct row row_of(const struct known *k, const char *id);

/* "" where there is none, or where nobody knows it. */
const char *row_template(const struct row *r);
const char *row_command(const struct row *r);
const char *row_key(const struct row *r); /* the name of its key; of the daemon's only */

/* "running", "paused" or "ended", as the daemon or the microVM says; "?" when it does not answer. */
const char *row_status(const struct row *r);
/* Put aside by the daemon: it has no microVM. */
bool row_is_paused(const struct row *r);

uint64_t row_created_ns(const struct row *r);
uint64_t row_ends_ns(const struct row *r); /* 0: unknown */
unsigned row_cpus(const struct row *r);
uint64_t row_memory_bytes(const struct row *r);
json_t *row_metadata(const struct row *r); /* borrowed, or NULL */

/* For programs. A new reference. */
json_t *row_json(const struct row *r);

#endif
