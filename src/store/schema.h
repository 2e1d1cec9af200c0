/* Inside the store: the tables and how older files are brought up to date. */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#include "store/db.h"

/* Entry i leads from schema version i to i + 1. Entries are never changed once released: a change
 * of the schema is a new entry at the end. */
struct migration {
	const char *sql;
};

extern const struct migration schema_migrations[];
extern const unsigned schema_migration_count;

/* Runs the missing migrations, each in one transaction with its version number, after making a
 * backup "<path>.v<version>" of an older file. -EPROTO when the file is of another program or of a
 * newer version. */
int schema_migrate(struct store *s, const struct migration *list, unsigned count, struct error *e);

int schema_version(struct store *s, unsigned *ret, struct error *e);

#endif
