/* src/store/sandboxes, sandbox_list, sandbox_row, page, text: rows, states, lists, deadlines. */
#include "test.h"

#include "store/page.h"
#include "test_store_fixture.h"

static void assert_text(const char *a, const char *b)
{
	if (a && b)
		assert_string_equal(a, b);
	else
		assert_true(a == b);
}

static void assert_same(const struct store_sandbox *a, const struct store_sandbox *b)
{
	assert_text(a->id, b->id);
	assert_text(a->key_id, b->key_id);
	assert_text(a->template_id, b->template_id);
	assert_text(a->template_alias, b->template_alias);
	assert_text(a->build_id, b->build_id);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->created_ns, b->created_ns);
	assert_int_equal(a->started_ns, b->started_ns);
	assert_int_equal(a->resumed_ns, b->resumed_ns);
	assert_int_equal(a->end_ns, b->end_ns);
	assert_int_equal(a->timeout_ns, b->timeout_ns);
	assert_int_equal(a->secure, b->secure);
	assert_int_equal(a->auto_pause, b->auto_pause);
	assert_int_equal(a->auto_pause_memory, b->auto_pause_memory);
	assert_int_equal(a->auto_resume, b->auto_resume);
	assert_int_equal(a->pause_memory, b->pause_memory);
	assert_text(a->metadata_json, b->metadata_json);
	assert_text(a->env_json, b->env_json);
	assert_text(a->envd_token, b->envd_token);
	assert_text(a->traffic_token, b->traffic_token);
	assert_text(a->envd_version, b->envd_version);
	assert_text(a->network_json, b->network_json);
	assert_text(a->extra_json, b->extra_json);
	assert_text(a->directory, b->directory);
	assert_int_equal(a->cpus, b->cpus);
	assert_int_equal(a->memory_bytes, b->memory_bytes);
	assert_int_equal(a->disk_bytes, b->disk_bytes);
	assert_int_equal(a->vmm_pid, b->vmm_pid);
	assert_int_equal(a->vmm_start, b->vmm_start);
	assert_int_equal(a->internet, b->internet);
	assert_int_equal(a->network_generation, b->network_generation);
	assert_text(a->network_names_json, b->network_names_json);
}

/* Every field differs from every other, so that a swapped column is seen. */
static struct store_sandbox full_sandbox(const struct fixture *f)
{
	return (struct store_sandbox){
		.id = "ifull",
		.key_id = f->key,
		.template_id = "tmpl",
		.template_alias = "alias",
		.build_id = "build",
		.state = STORE_SNAPSHOTTING,
		.created_ns = T0 + 1,
		.started_ns = T0 + 2,
		.resumed_ns = T0 + 3,
		.end_ns = STORE_NEVER_NS,
		.timeout_ns = 5,
		.secure = true,
		.auto_pause = false,
		.auto_pause_memory = true,
		.auto_resume = false,
		.pause_memory = true,
		.metadata_json = "{\"a\":\"it's \\\"quoted\\\"\"}",
		.env_json = "{\"PATH\":\"/bin\"}",
		.envd_token = "token1",
		.traffic_token = "token2",
		.envd_version = "0.6.13",
		.network_json = "{\"allowOut\":[]}",
		.extra_json = "{\"volumes\":[]}",
		.directory = "/var/lib/x y",
		.cpus = 6,
		.memory_bytes = 7,
		.disk_bytes = 8,
		.vmm_pid = 9,
		.vmm_start = 10,
		.internet = STORE_INTERNET_DENIED,
		.network_generation = 11,
		.network_names_json = "{\"names\":[]}",
	};
}

static struct store_sandbox *get(struct fixture *f, const char *id)
{
	struct store_sandbox *sb = NULL;

	ok(f, store_sandbox_get(f->s, id, &sb, &f->e));
	return sb;
}

static void test_insert_get(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox full = full_sandbox(f), plain = fixture_sandbox(f, "iplain");
	_cleanup_(store_sandbox_freep) struct store_sandbox *a = NULL, *b = NULL, *none = NULL;

	plain.template_alias = NULL;
	ok(f, store_sandbox_insert(f->s, &full, &f->e));
	ok(f, store_sandbox_insert(f->s, &plain, &f->e));
	refused(f, EEXIST, ERROR_EXISTS, store_sandbox_insert(f->s, &full, &f->e));
	fixture_reopen(f);
	a = get(f, "ifull");
	b = get(f, "iplain");
	assert_same(a, &full);
	assert_same(b, &plain);
	refused(f, ENOENT, ERROR_NOT_FOUND, store_sandbox_get(f->s, "inone", &none, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_sandbox_get(f->s, "\x1b[2J", &none, &f->e));
	assert_null(strchr(f->e.message, '\x1b'));
	store_sandbox_free(NULL);
}

static void test_insert_refuses(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox good = fixture_sandbox(f, "i1"), sb;
	char *long_json = calloc(1, STORE_JSON_MAX + 64);

#define bad(field, value, err, code)                                                               \
	do {                                                                                       \
		sb = good;                                                                         \
		sb.field = value;                                                                  \
		refused(f, err, code, store_sandbox_insert(f->s, &sb, &f->e));                     \
	} while (0)
	bad(id, "", EINVAL, ERROR_USAGE);
	bad(id, "I", EINVAL, ERROR_USAGE);
	bad(id, "a'b", EINVAL, ERROR_USAGE);
	bad(id, "a_b", EINVAL, ERROR_USAGE);
	bad(key_id, "none", ENOENT, ERROR_NOT_FOUND);
	bad(key_id, NULL, EINVAL, ERROR_USAGE);
	bad(template_id, NULL, EINVAL, ERROR_USAGE);
	bad(template_id, "\xff", EINVAL, ERROR_USAGE);
	bad(envd_version, "", EINVAL, ERROR_USAGE);
	bad(state, (enum store_sandbox_state)5, EINVAL, ERROR_INTERNAL);
	bad(metadata_json, "", EINVAL, ERROR_USAGE);
	bad(metadata_json, "[]", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\":1}", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\":null}", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\":\"b\",\"a\":\"c\"}", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\":\"b\\u0000c\"}", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\\u0000\":\"b\"}", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\":\"\xff\"}", EINVAL, ERROR_USAGE);
	bad(metadata_json, "{\"a\":\"b\"} x", EINVAL, ERROR_USAGE);
	bad(env_json, "{\"a\":{}}", EINVAL, ERROR_USAGE);
	bad(env_json, "{\"a\":", EINVAL, ERROR_USAGE);
	bad(network_json, "7", EINVAL, ERROR_USAGE);
	bad(network_names_json, "[]", EINVAL, ERROR_USAGE);
	bad(extra_json, "null", EINVAL, ERROR_USAGE);
	memset(long_json, ' ', STORE_JSON_MAX + 63);
	memcpy(long_json, "{}", 2);
	bad(extra_json, long_json, EINVAL, ERROR_USAGE);
	memset(long_json, 'x', 4096);
	long_json[4096] = '\0';
	bad(directory, long_json, EINVAL, ERROR_USAGE);
	long_json[STORE_TOKEN_MAX + 1] = '\0';
	bad(envd_token, long_json, EINVAL, ERROR_USAGE);
	assert_null(strstr(f->e.message, "xxx")); /* values are not repeated */
	long_json[STORE_ID_MAX + 1] = '\0';
	bad(id, long_json, EINVAL, ERROR_USAGE);
#undef bad
	free(long_json);
	ok(f, store_sandbox_insert(f->s, &good, &f->e));
}

static void test_metadata_has_a_maximum(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	char json[8192] = "{";
	size_t n = 1;

	for (unsigned i = 0; i <= STORE_METADATA_PAIRS_MAX; i++)
		n += (size_t)snprintf(
			json + n, sizeof(json) - n, "%s\"k%u\":\"v\"", i ? "," : "", i);
	memcpy(json + n, "}", 2);
	sb.metadata_json = json;
	refused(f, EINVAL, ERROR_USAGE, store_sandbox_insert(f->s, &sb, &f->e));
	memcpy(strrchr(json, ','), "}", 2); /* one fewer */
	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
}

static void test_update(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1"), change = full_sandbox(f), want;
	enum store_sandbox_state now = STORE_STATES_;

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	/* One field at a time: nothing else changes. */
	for (unsigned bit = 1; bit < STORE_SET_ALL_; bit <<= 1) {
		_cleanup_(store_sandbox_freep) struct store_sandbox *got = NULL;

		ok(f, store_sandbox_update(f->s, "i1", STORE_ANY_STATE, bit, &change, NULL, &f->e));
		want = sb;
		if (bit & STORE_SET_STATE)
			want.state = change.state;
		if (bit & STORE_SET_END)
			want.end_ns = change.end_ns;
		if (bit & STORE_SET_RESUMED)
			want.resumed_ns = change.resumed_ns;
		if (bit & STORE_SET_VMM)
			want.vmm_pid = change.vmm_pid, want.vmm_start = change.vmm_start;
		if (bit & STORE_SET_TIMEOUT)
			want.timeout_ns = change.timeout_ns;
		if (bit & STORE_SET_PAUSE_MEMORY)
			want.pause_memory = change.pause_memory;
		if (bit & STORE_SET_AUTO_PAUSE)
			want.auto_pause_memory = change.auto_pause_memory;
		if (bit & STORE_SET_NETWORK)
			want.network_json = change.network_json, want.internet = change.internet,
			want.network_generation = change.network_generation;
		if (bit & STORE_SET_NETWORK_NAMES)
			want.network_names_json = change.network_names_json;
		if (bit & STORE_SET_EXTRA)
			want.extra_json = change.extra_json;
		if (bit & STORE_SET_ENV)
			want.env_json = change.env_json;
		if (bit & STORE_SET_DIRECTORY)
			want.directory = change.directory;
		got = get(f, "i1");
		assert_same(got, &want);
		ok(f, store_sandbox_update(f->s, "i1", STORE_ANY_STATE, bit, &sb, &now, &f->e));
		assert_int_equal(now, STORE_RUNNING);
	}
	change.network_json = "{";
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_update(
			f->s, "i1", STORE_ANY_STATE, STORE_SET_NETWORK, &change, NULL, &f->e));
	change.network_names_json = "[";
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_update(f->s, "i1", STORE_ANY_STATE, STORE_SET_NETWORK_NAMES, &change,
			NULL, &f->e));
	refused(f, EINVAL, ERROR_INTERNAL,
		store_sandbox_update(f->s, "i1", STORE_ANY_STATE, 1 << 20, &sb, NULL, &f->e));
}

static void test_update_compares_the_state(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	struct store_sandbox pausing = {.state = STORE_PAUSING}, paused = {.state = STORE_PAUSED};
	enum store_sandbox_state now = STORE_STATES_;

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	ok(f, store_sandbox_update(f->s, "i1", STORE_STATE_BIT(STORE_RUNNING), STORE_SET_STATE,
		      &pausing, &now, &f->e));
	assert_int_equal(now, STORE_PAUSING);
	refused(f, EBUSY, ERROR_USAGE,
		store_sandbox_update(f->s, "i1", STORE_STATE_BIT(STORE_RUNNING), STORE_SET_STATE,
			&pausing, &now, &f->e));
	assert_int_equal(now, STORE_PAUSING);
	assert_string_equal(f->e.message, "sandbox i1 is pausing");
	ok(f, store_sandbox_update(f->s, "i1", STORE_STATE_BIT(STORE_PAUSING), STORE_SET_STATE,
		      &paused, &now, &f->e));
	refused(f, EBUSY, ERROR_USAGE, store_sandbox_set_end(f->s, "i1", T0, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_sandbox_set_end(f->s, "i2", T0, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_sandbox_update(
			f->s, "i2", STORE_ANY_STATE, STORE_SET_STATE, &paused, &now, &f->e));
	ok(f, store_sandbox_delete(f->s, "i1", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_sandbox_delete(f->s, "i1", &f->e));
}

/* ---- lists ---- */

enum { PAGES_MAX = 4096 };

struct page_of_ids {
	char ids[PAGES_MAX][16];
	unsigned count;
};

static int keep_id(void *arg, const struct store_sandbox *sb)
{
	struct page_of_ids *p = arg;

	assert_true(p->count < PAGES_MAX);
	(void)snprintf(p->ids[p->count++], sizeof(p->ids[0]), "%s", sb->id);
	return 0;
}

/* All pages of a filter, as "id id id". */
static const char *list(struct fixture *f, struct store_sandbox_filter filter)
{
	static char text[PAGES_MAX * 16];
	static struct page_of_ids p;
	char token[STORE_PAGE_TOKEN_BYTES] = "", next[STORE_PAGE_TOKEN_BYTES];
	unsigned before, pages = 0;

	p.count = 0;
	if (!filter.limit)
		filter.limit = 2;
	do {
		before = p.count;
		filter.token = token;
		ok(f, store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
		assert_true(p.count - before <= filter.limit);
		memcpy(token, next, sizeof(token));
		assert_true(++pages < PAGES_MAX);
	} while (*token);
	text[0] = '\0';
	for (unsigned i = 0; i < p.count; i++)
		(void)sprintf(text + strlen(text), "%s%s", i ? " " : "", p.ids[i]);
	return text;
}

static void add(struct fixture *f, const char *id, unsigned second, enum store_sandbox_state state,
	const char *metadata)
{
	struct store_sandbox sb = fixture_sandbox(f, id);

	sb.started_ns = T0 + second * NS_PER_S + second;
	sb.state = state;
	sb.metadata_json = metadata;
	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
}

static void add_some(struct fixture *f)
{
	add(f, "ia", 1, STORE_RUNNING, "{\"env\":\"prod\",\"user\":\"1\"}");
	add(f, "ib", 2, STORE_PAUSED, "{\"env\":\"prod\",\"user\":\"2\"}");
	add(f, "ic", 2, STORE_RUNNING, "{\"env\":\"dev\",\"user\":\"1\"}");
	add(f, "id", 2, STORE_KILLING, NULL);
	add(f, "ie", 3, STORE_PAUSING, "{\"env\":\"prod\",\"a b\":\"c&d='\\\"\"}");
}

static void test_list_order_and_pages(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox_filter filter = {.key_id = f->key};

	add_some(f);
	for (uint32_t limit = 1; limit <= 6; limit++) {
		filter.limit = limit;
		filter.ascending = false;
		assert_string_equal(list(f, filter), "ie id ic ib ia");
		filter.ascending = true;
		assert_string_equal(list(f, filter), "ia ib ic id ie");
	}
	filter.key_id = NULL;
	assert_string_equal(list(f, filter), "ia ib ic id ie");
	filter.key_id = "another";
	assert_string_equal(list(f, filter), "");
}

static void test_list_filters(void **state)
{
	struct fixture *f = *state;
	const struct store_sandbox_filter base = {.key_id = f->key, .ascending = true};
	struct store_sandbox_filter filter = base;

	add_some(f);
	filter.states = STORE_STATE_BIT(STORE_RUNNING);
	assert_string_equal(list(f, filter), "ia ic");
	filter.states = STORE_STATE_BIT(STORE_PAUSED) | STORE_STATE_BIT(STORE_PAUSING);
	assert_string_equal(list(f, filter), "ib ie");
	filter = base;
	filter.started_after_ns = T0 + 2 * NS_PER_S + 2; /* inclusive */
	assert_string_equal(list(f, filter), "ib ic id ie");
	filter.started_after_ns++;
	assert_string_equal(list(f, filter), "ie");
	filter = base;
	filter.template = "tmplbase";
	assert_string_equal(list(f, filter), "ia ib ic id ie");
	filter.template = "base";
	assert_string_equal(list(f, filter), "ia ib ic id ie");
	filter.template = "' OR 1=1 --";
	assert_string_equal(list(f, filter), "");
}

static void test_list_by_metadata(void **state)
{
	struct fixture *f = *state;
	struct store_pair pairs[] = {{"env", "prod"}, {"user", "1"}};
	struct store_pair odd = {"a b", "c&d='\""}, hostile = {"env", "prod' OR '1'='1"};
	struct store_sandbox_filter filter = {.metadata = pairs, .metadata_count = 1};

	add_some(f);
	for (unsigned as_operator = 0; as_operator < 2; as_operator++) {
		filter.key_id = as_operator ? NULL : f->key;
		filter.metadata = pairs;
		filter.metadata_count = 1;
		assert_string_equal(list(f, filter), "ie ib ia");
		filter.ascending = true;
		assert_string_equal(list(f, filter), "ia ib ie");
		filter.started_after_ns = T0 + 2 * NS_PER_S;
		assert_string_equal(list(f, filter), "ib ie");
		filter.started_after_ns = 0;
		filter.metadata_count = 2;
		assert_string_equal(list(f, filter), "ia");
		filter.metadata_count = 1;
		filter.metadata = &odd;
		assert_string_equal(list(f, filter), "ie");
		filter.metadata = &hostile;
		assert_string_equal(list(f, filter), "");
		filter.ascending = false;
	}
	/* Removed with their sandbox. */
	ok(f, store_sandbox_delete(f->s, "ia", &f->e));
	filter.metadata = pairs;
	assert_string_equal(list(f, filter), "ie ib");
}

static void test_list_refuses(void **state)
{
	struct fixture *f = *state;
	char token[STORE_PAGE_TOKEN_BYTES], next[STORE_PAGE_TOKEN_BYTES], huge[1024];
	const char *const bad[] = {"x", "!!!!", "====", "MjAyNw", "a\xff", "MjAyNy0wMS0xNV9faWE=x",
		"AAAA", "' OR 1", huge};
	struct store_pair pairs[STORE_FILTER_PAIRS_MAX + 1] = {0}, broken = {"\xff", "v"};
	struct store_sandbox_filter filter = {.key_id = f->key, .limit = 1};
	static struct page_of_ids p;

	memset(huge, 'A', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	add_some(f);
	p.count = 0;
	ok(f, store_sandbox_list(f->s, &filter, keep_id, &p, token, &f->e));
	filter.token = token;
	filter.ascending = true;
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
	assert_non_null(strstr(f->e.message, "other order"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		filter.token = bad[i];
		refused(f, EINVAL, ERROR_USAGE,
			store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
	}
	filter.token = NULL;
	filter.limit = 0;
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
	filter.limit = STORE_LIST_MAX + 1;
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
	filter.limit = 1;
	filter.metadata = pairs;
	filter.metadata_count = ARRAY_SIZE(pairs);
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
	filter.metadata = &broken;
	filter.metadata_count = 1;
	refused(f, EINVAL, ERROR_USAGE,
		store_sandbox_list(f->s, &filter, keep_id, &p, next, &f->e));
}

static void test_list_with_every_filter(void **state)
{
	struct fixture *f = *state;
	struct store_pair pairs[STORE_FILTER_PAIRS_MAX];
	struct store_sandbox_filter filter = {.key_id = f->key,
		.limit = 1,
		.template = "base",
		.states = 1,
		.started_after_ns = 1,
		.metadata = pairs,
		.metadata_count = ARRAY_SIZE(pairs)};

	add(f, "ia", 1, STORE_RUNNING, "{\"env\":\"prod\"}");
	add(f, "ib", 2, STORE_RUNNING, "{\"env\":\"prod\"}");
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		pairs[i] = (struct store_pair){"env", "prod"};
	assert_string_equal(list(f, filter), "ib ia");
	filter.key_id = NULL;
	assert_string_equal(list(f, filter), "ib ia");
}

/* What the reference makes: base64url of "<RFC3339Nano>__<id>". */
static void test_page_tokens(void **state)
{
	const struct {
		struct page page;
		const char *token;
	} cases[] = {
		{{T0, "iabc", false}, "MjAyNy0wMS0xNVQwODowMDowMFpfX2lhYmM"},
		{{T0 + 120000000, "iabc", true}, "MjAyNy0wMS0xNVQwODowMDowMC4xMjBaX19pYWJjX19hc2M"},
		{{1, "i", false}, "MTk3MC0wMS0wMVQwMDowMDowMC4wMDAwMDAwMDFaX19p"},
	};
	char token[STORE_PAGE_TOKEN_BYTES];
	struct error e = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct page p = {0};

		page_encode(&cases[i].page, token);
		assert_string_equal(token, cases[i].token);
		assert_int_equal(page_decode(token, &p, &e), 0);
		assert_int_equal(p.started_ns, cases[i].page.started_ns);
		assert_string_equal(p.id, cases[i].page.id);
		assert_int_equal(p.ascending, cases[i].page.ascending);
		while (strlen(token) % 4)
			strcat(token, "=");
		assert_int_equal(page_decode(token, &p, &e), 0); /* padded by a proxy or client */
	}
}

/* ---- counts and deadlines ---- */

static void test_counts(void **state)
{
	struct fixture *f = *state;
	uint64_t n = 99;

	ok(f, store_sandbox_count(f->s, f->key, STORE_ANY_STATE, &n, &f->e));
	assert_int_equal(n, 0);
	add_some(f);
	ok(f, store_sandbox_count(f->s, f->key, STORE_STATE_BIT(STORE_RUNNING), &n, &f->e));
	assert_int_equal(n, 2);
	ok(f, store_sandbox_count(f->s, NULL, STORE_ANY_STATE, &n, &f->e));
	assert_int_equal(n, 5);
	ok(f, store_sandbox_count(f->s, "other", STORE_ANY_STATE, &n, &f->e));
	assert_int_equal(n, 0);
}

struct expiry {
	struct fixture *f;
	unsigned count;
	uint64_t last_ns;
};

static int kill_expired(void *arg, const char *id, uint64_t end_ns)
{
	struct expiry *x = arg;

	assert_true(end_ns >= x->last_ns);
	x->last_ns = end_ns;
	x->count++;
	ok(x->f, store_sandbox_delete(x->f->s, id, &x->f->e));
	return 0;
}

static void test_deadlines(void **state)
{
	struct fixture *f = *state;
	struct expiry x = {.f = f};
	struct store_sandbox never = fixture_sandbox(f, "inever");
	uint64_t at = 0;
	bool more = true;

	ok(f, store_sandbox_next_end(f->s, &at, &f->e));
	assert_int_equal(at, STORE_NEVER_NS);
	never.end_ns = STORE_NEVER_NS;
	ok(f, store_sandbox_insert(f->s, &never, &f->e));
	for (unsigned i = 0; i < STORE_EXPIRED_MAX + 10; i++) {
		char id[16];
		struct store_sandbox sb;

		(void)snprintf(id, sizeof(id), "i%u", i);
		sb = fixture_sandbox(f, id);
		sb.end_ns = T0 + (i * 7919) % 1000;
		ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	}
	add(f, "ipaused", 0, STORE_PAUSED, NULL);
	ok(f, store_sandbox_next_end(f->s, &at, &f->e));
	assert_int_equal(at, T0);
	ok(f, store_sandbox_expired(f->s, T0 - 1, kill_expired, &x, &more, &f->e));
	assert_true(x.count == 0 && !more);
	ok(f, store_sandbox_expired(f->s, T0 + 1000, kill_expired, &x, &more, &f->e));
	assert_true(x.count == STORE_EXPIRED_MAX && more);
	ok(f, store_sandbox_expired(f->s, T0 + 1000, kill_expired, &x, &more, &f->e));
	assert_true(x.count == STORE_EXPIRED_MAX + 10 && !more);
	ok(f, store_sandbox_next_end(f->s, &at, &f->e));
	assert_int_equal(at, STORE_NEVER_NS);
	ok(f, store_sandbox_set_end(f->s, "inever", T0 + 5, &f->e));
	ok(f, store_sandbox_next_end(f->s, &at, &f->e));
	assert_int_equal(at, T0 + 5);
}

static int delete_each(void *arg, const struct store_sandbox *sb)
{
	struct fixture *f = arg;

	ok(f, store_sandbox_delete(f->s, sb->id, &f->e));
	assert_true(sb->cpus == 2); /* still readable */
	return 0;
}

static void test_each_may_delete(void **state)
{
	struct fixture *f = *state;
	uint64_t n = 0;

	add_some(f);
	ok(f, store_sandbox_each(f->s, true, delete_each, f, &f->e));
	ok(f, store_sandbox_count(f->s, NULL, STORE_ANY_STATE, &n, &f->e));
	assert_int_equal(n, 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_insert_get),
		TEST(test_insert_refuses),
		TEST(test_metadata_has_a_maximum),
		TEST(test_update),
		TEST(test_update_compares_the_state),
		TEST(test_list_order_and_pages),
		TEST(test_list_filters),
		TEST(test_list_by_metadata),
		TEST(test_list_refuses),
		TEST(test_list_with_every_filter),
		cmocka_unit_test(test_page_tokens),
		TEST(test_counts),
		TEST(test_deadlines),
		TEST(test_each_may_delete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
