/* JSON read where it stands: what is taken for an object's members is exactly what jansson reads,
 * and their parts are what jansson finds. So is the tree that is made of it, within its limits.
 * (jansson 2.14 overlooks a NUL byte behind a number.) */
#include "fuzz.h"

#include <jansson.h>

#include "proto/json_scan.h"
#include "proto/json_tree.h"

static json_t *parsed(struct json_slice s)
{
	return json_loadb(s.text, s.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* Of a key that is there twice, jansson keeps the last value, too. */
static void keep(json_t *found, const struct json_member *m)
{
	json_t *key = parsed(m->key), *value = parsed(m->value);

	check(json_is_string(key) && value);
	check(m->whole.text == m->key.text);
	check(m->whole.text + m->whole.len == m->value.text + m->value.len);
	check(json_object_set_new(found, json_string_value(key), value) == 0);
	json_decref(key);
}

static void compare_trees(const uint8_t *data, size_t n, unsigned flags, size_t jansson_flags)
{
	const char *reason = NULL;
	json_t *ours = json_tree_parse(data, n, flags, &reason);
	json_t *theirs = json_loadb((const char *)data, n, jansson_flags, NULL);

	check(ours ? json_equal(ours, theirs) : reason != NULL);
	if (!ours)
		check(!json_is_object(theirs) || memchr(data, 0, n) || strstr(reason, "too deep") ||
			strstr(reason, "too many"));
	json_decref(ours);
	json_decref(theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	json_t *tree = json_loadb((const char *)data, n, JSON_ALLOW_NUL, NULL);
	struct json_members members = json_members_of(data, n);
	json_t *found = json_object();
	struct json_member m;
	int r;

	compare_trees(data, n, JSON_TREE_NO_NUL, 0);
	compare_trees(data, n, JSON_TREE_UNIQUE, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL);
	while ((r = json_members_next(&members, &m)) > 0)
		keep(found, &m);
	check(r == 0 ? json_equal(found, tree) : !json_is_object(tree) || memchr(data, 0, n));
	json_decref(found);
	json_decref(tree);
	return 0;
}
