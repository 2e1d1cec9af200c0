/* The names of runtimes: what is built in, what the operator's list adds, and the names of images'
 * templates. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fleet/runtimes.h"

static struct option_list list_of(const char *const *entries)
{
	struct option_list l = {.count = 0};

	while (entries[l.count]) {
		l.items[l.count] = entries[l.count];
		l.count++;
	}
	return l;
}

static bool is_right(const char *entry)
{
	const struct option_list l = list_of((const char *const[]){entry, NULL});
	struct error e = {0};

	return runtimes_check(&l, &e) == 0;
}

static void test_entries(void **state)
{
	static const char *const right[] = {"a=b", "a=b:c", "python-3.12=image:x/y:z",
		"a=image:oci-archive:/srv/an image.tar", "a=image"};
	static const char *const wrong[] = {
		"", "a", "=b", "a=", "A=b", "a=b/c", "a=image:", "a b=c", "a=images:b/c"};
	char *tall = malloc(RUNTIME_IMAGE_MAX + 16);

	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		assert_true(is_right(right[i]));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(is_right(wrong[i]));
	assert_non_null(tall);
	memset(tall, 'x', RUNTIME_IMAGE_MAX + 15);
	memcpy(tall, "a=image:", 8);
	tall[8 + RUNTIME_IMAGE_MAX] = '\0';
	assert_true(is_right(tall));
	memcpy(tall + 8 + RUNTIME_IMAGE_MAX, "x", 2);
	assert_false(is_right(tall));
	free(tall);
}

static void test_list(void **state)
{
	const struct option_list l = list_of((const char *const[]){
		"deno=x", "cobol=a:1", "deno=y", "cobol=b", "ada=image:r.test/ada", NULL});
	struct runtime r;
	char *names = runtimes_names(&l);

	assert_string_equal(names, "python-3.12, node-20, deno, base, cobol, ada");
	free(names);
	assert_true(runtimes_find(&l, "deno", &r));
	assert_string_equal(r.template, "y");
	assert_int_equal(r.number, 2);
	assert_true(runtimes_get(&l, 4, &r));
	assert_string_equal(r.name, "cobol");
	assert_string_equal(r.template, "b");
	assert_null(r.image);
	assert_true(runtimes_get(&l, 5, &r));
	assert_string_equal(r.image, "r.test/ada");
	assert_false(runtimes_get(&l, 6, &r));
	assert_false(runtimes_find(&l, "cob", &r));
	assert_true(runtimes_find(NULL, "base", &r));
	assert_string_equal(r.template, "base");
	assert_false(runtimes_get(NULL, 4, &r));
}

/* Of an image's reference, which is not from the list of above. */
static void template_of(const char *reference, char out[RUNTIME_NAME_MAX + 1])
{
	char *entry = str_printf("x=image:%s", reference);
	const struct option_list l = list_of((const char *const[]){entry, NULL});
	struct runtime r;

	assert_true(runtimes_find(&l, "x", &r));
	memcpy(out, r.template, sizeof(r.template));
	assert_true(str_is_name(out));
	free(entry);
}

static void test_images(void **state)
{
	static const char digest[] = "r.test/a@sha256:00000000000000000000000000000000000000000000"
				     "00000000000000000000";
	char a[RUNTIME_NAME_MAX + 1], b[RUNTIME_NAME_MAX + 1];

	template_of("docker.io/library/python:3.12", a);
	assert_string_equal(a, "python-3.12-9f39de2cc07a");
	template_of("r.test/library/python:3.12", b);
	assert_true(str_starts_with(b, "python-3.12-"));
	assert_string_not_equal(a, b);
	template_of(digest, a);
	assert_int_equal(strlen(a), RUNTIME_NAME_MAX);
	template_of("tar:///", a);
	assert_int_equal(strlen(a), 12);
	template_of("R/\xc3\xbc\xc3\xbc_X", a);
	assert_true(str_starts_with(a, "x-"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_images),
	};

	return cmocka_run_group_tests_name("runtime_names", tests, NULL, NULL);
}
