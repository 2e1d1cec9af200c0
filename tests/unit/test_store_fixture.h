/* What the tests of the store share: a store in a directory of its own, a key, a sandbox. */
#ifndef TESTS_TEST_STORE_FIXTURE_H
#define TESTS_TEST_STORE_FIXTURE_H

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "store/db.h"
#include "store/keys.h"
#include "store/sandboxes.h"
#include "store/store.h"
#include "store/vault.h"

#define T0 (UINT64_C(1800000000) * NS_PER_S) /* 2027-01-15T08:00:00Z */

struct fixture {
	struct store *s;
	char dir[64];
	char path[96];
	char key[STORE_UUID_BYTES];
	char secret[STORE_KEY_SECRET_BYTES];
	struct error e;
	bool locked; /* nothing can be opened */
};

/* cmocka's assert_return_code reads errno; this shows the store's message. */
#define ok(f, call)                                                                                \
	do {                                                                                       \
		int ok_r_;                                                                         \
		error_clear(&(f)->e);                                                              \
		ok_r_ = (call);                                                                    \
		if (ok_r_)                                                                         \
			fail_msg("%s: %d %s", #call, ok_r_, (f)->e.message);                       \
	} while (0)

#define refused(f, err, want_code, call)                                                           \
	do {                                                                                       \
		error_clear(&(f)->e);                                                              \
		assert_int_equal(call, -(err));                                                    \
		assert_int_equal((f)->e.code, want_code);                                          \
		assert_true(strlen((f)->e.message) > 0);                                           \
	} while (0)

/* A vault of the tests: the context stands in front of the data, whose bits are inverted. */
static inline int fixture_seal(void *arg, const char *context, const void *data, size_t n,
	uint8_t **ret, size_t *ret_n, struct error *e)
{
	size_t head = strlen(context) + 1;
	uint8_t *out = malloc(head + n);

	assert_non_null(out);
	memcpy(out, context, head);
	for (size_t i = 0; i < n; i++)
		out[head + i] = (uint8_t) ~((const uint8_t *)data)[i];
	*ret = out;
	*ret_n = head + n;
	return 0;
}

static inline int fixture_unseal(void *arg, const char *context, const void *sealed, size_t n,
	char **ret, size_t *ret_n, struct error *e)
{
	size_t head = strlen(context) + 1;
	char *out;

	if ((arg && *(bool *)arg) || n < head || memcmp(sealed, context, head) != 0)
		return error_set(e, ERROR_HOST, EBADMSG, "it cannot be opened");
	out = calloc(1, n - head + 1);
	assert_non_null(out);
	for (size_t i = 0; i < n - head; i++)
		out[i] = (char)~((const uint8_t *)sealed)[head + i];
	*ret = out;
	*ret_n = n - head;
	return 0;
}

static inline void fixture_vault(struct fixture *f)
{
	const struct store_vault v = {&f->locked, fixture_seal, fixture_unseal};
	const uint8_t name[STORE_VAULT_NAME] = "testkey";

	ok(f, store_vault_set(f->s, &v, name, NULL, &f->e));
}

static inline int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/mayfly-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/mayfly.db", f->dir);
	ok(f, store_open(f->path, &f->s, &f->e));
	fixture_vault(f);
	ok(f, store_key_create(f->s, &(struct store_key_spec){.name = "test"}, T0, f->key,
		      f->secret, &f->e));
	*state = f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->s);
	(void)file_remove_tree(AT_FDCWD, f->dir); /* leaves rubbish at worst */
	free(f);
	return 0;
}

static inline void fixture_reopen(struct fixture *f)
{
	store_close(f->s);
	f->s = NULL;
	ok(f, store_open(f->path, &f->s, &f->e));
	fixture_vault(f);
}

static inline struct store_sandbox fixture_sandbox(const struct fixture *f, const char *id)
{
	return (struct store_sandbox){
		.id = id,
		.key_id = f->key,
		.template_id = "tmplbase",
		.template_alias = "base",
		.state = STORE_RUNNING,
		.created_ns = T0,
		.started_ns = T0,
		.resumed_ns = T0,
		.end_ns = T0 + 300 * NS_PER_S,
		.timeout_ns = 300 * NS_PER_S,
		.envd_version = "0.6.13",
		.cpus = 2,
		.memory_bytes = UINT64_C(512) << 20,
		.disk_bytes = UINT64_C(1) << 30,
		.vmm_pid = 4711,
		.vmm_start = 99,
	};
}

static inline uint64_t number(struct fixture *f, const char *sql)
{
	struct query q = db_query_once(f->s, sql);
	uint64_t v = 0;

	ok(f, query_number(&q, &v, &f->e));
	return v;
}

/* Keys, teams and the like are counted. */
static inline int fixture_count(void *arg, const void *row)
{
	++*(unsigned *)arg;
	return 0;
}

#endif
