/* Inside the store: the tables, and the migration of older files. */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#include "store/db.h"

/* Entry i migrates from schema version i to i + 1. Released entries never change: append a new
 * entry for each change of the schema. */
struct migration {
	const char *sql;
};

enum { VAULT_VERSION = 27 }; /* the first whose file has no secrets in plain text */

extern const struct migration schema_migrations[];
extern const unsigned schema_migration_count;

/* Runs the missing migrations, each in one transaction with its version number. First makes a
 * backup "<path>.v<version>" of an older file. -EPROTO when the file belongs to another program or
 * to a newer version. */
int schema_migrate(struct store *s, const struct migration *list, unsigned count, struct error *e);

/* The version of the open file's schema; 0 for an empty file. */
int schema_version(struct store *s, unsigned *ret, struct error *e);

#endif
