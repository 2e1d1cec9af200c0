/* src/fleet/activity_record: what a worker says becomes a record, whatever it says. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "network/activity_record.h"
#include "store/activity.h"

#define NOW (UINT64_C(1800000000) * NS_PER_S)

static char *record_of(const char *said, uint64_t *ret_at_ns)
{
	json_t *root = json_loads(said, JSON_DECODE_ANY, NULL);
	char *text;

	assert_non_null(root);
	text = activity_record(root, NOW, ret_at_ns);
	json_decref(root);
	return text;
}

static void assert_record(const char *said, const char *wanted, uint64_t wanted_ns)
{
	uint64_t at_ns = 0;
	_cleanup_free_ char *text = record_of(said, &at_ns);

	assert_non_null(text);
	assert_string_equal(text, wanted);
	assert_int_equal(at_ns, wanted_ns);
}

static void test_members_in_order(void **state)
{
	assert_record(
		"{\"pid\":7,\"up\":1,\"down\":2,\"name\":\"x\",\"begin\":1700000000000,"
		"\"end\":1700000000250,\"proto\":\"tcp\",\"port\":443,\"secrets\":[\"a\",\"b\"],"
		"\"method\":\"GET\",\"path\":\"/\\u00e4\",\"status\":200,\"verdict\":\"allowed\"}",
		"{\"time\":\"2023-11-14T22:13:20.250Z\",\"durationMs\":250,\"protocol\":\"tcp\","
		"\"name\":\"x\",\"port\":443,\"method\":\"GET\",\"path\":\"/"
		"\\u00e4\",\"status\":200,"
		"\"bytesOut\":1,\"bytesIn\":2,\"verdict\":\"allowed\",\"secrets\":[\"a\",\"b\"],"
		"\"pid\":7}",
		UINT64_C(1700000000250) * NS_PER_MS);
}

static void test_models(void **state)
{
	assert_record("{\"end\":5,\"begin\":5,\"api\":\"openai\",\"model\":\"gpt\",\"tokensIn\":3,"
		      "\"tokensOut\":0,\"toolsCalled\":[\"a\"],\"maxTokens\":9,\"tool\":\"t\","
		      "\"serverTools\":[\"web_search\"],\"toolsOffered\":[\"b\"],\"answerCoding\":"
		      "\"br\"}",
		"{\"time\":\"1970-01-01T00:00:00.005Z\",\"durationMs\":0,\"api\":\"openai\","
		"\"model\":\"gpt\",\"maxTokens\":9,\"tokensIn\":3,\"tokensOut\":0,"
		"\"answerCoding\":\"br\",\"toolsCalled\":[\"a\"],\"toolsOffered\":[\"b\"],"
		"\"serverTools\":[\"web_search\"],\"tool\":\"t\"}",
		5 * NS_PER_MS);
}

/* Those of programs and servers, which cannot make a record too long to be kept. */
static void test_many_names(void **state)
{
	json_t *root = json_object(), *list = json_array();
	_cleanup_free_ char *short_one = NULL, *long_one = NULL;
	char name[81] = {0};
	uint64_t at_ns;

	memset(name, '\n', 80); /* two bytes each in a record */
	assert_int_equal(json_object_set_new(root, "model", json_string("m")), 0);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(json_array_append_new(list, json_string(name)), 0);
	assert_int_equal(json_object_set(root, "toolsOffered", list), 0);
	short_one = activity_record(root, NOW, &at_ns);
	assert_non_null(strstr(short_one, "\"toolsOffered\":[\"\\n"));
	assert_null(strstr(short_one, "\"cut\""));
	assert_int_equal(json_object_set(root, "serverTools", list), 0);
	long_one = activity_record(root, NOW, &at_ns);
	assert_non_null(long_one);
	assert_non_null(strstr(long_one, "\"model\":\"m\",\"cut\":true}"));
	json_decref(list);
	json_decref(root);
}

/* Of the future, of another type, unknown: the rest counts. */
static void test_what_is_wrong_is_left_out(void **state)
{
	static const char empty[] = "{\"time\":\"2027-01-15T08:00:00Z\",\"durationMs\":0}";

	assert_record("{}", empty, NOW);
	assert_record("{\"end\":99999999999999,\"begin\":-1,\"port\":-1,\"up\":1.5,\"name\":7,"
		      "\"secrets\":[7,[]],\"rule\":\"\",\"id\":1,\"kind\":\"x\",\"lost\":4}",
		empty, NOW);
	assert_record("{\"end\":5,\"begin\":9}",
		"{\"time\":\"1970-01-01T00:00:00.005Z\",\"durationMs\":0}", 5 * NS_PER_MS);
}

static void test_no_object(void **state)
{
	uint64_t at_ns;

	assert_null(record_of("7", &at_ns));
	assert_null(record_of("[]", &at_ns));
	assert_null(record_of("\"x\"", &at_ns));
}

/* All texts as long as they may be, each byte of which is escaped: it is too long for the store. A
 * text of one byte more is left out. */
static void test_long_texts(void **state)
{
	json_t *root = json_object(), *long_one = json_object();
	_cleanup_free_ char *text = NULL, *none = NULL;
	char path[514] = {0};
	uint64_t at_ns;

	memset(path, '\n', 512);
	for (unsigned i = 0; i < 8; i++) {
		static const char *const keys[] = {
			"path", "name", "reason", "rule", "program", "address", "error", "method"};
		static const unsigned max[] = {512, 254, 256, 64, 31, 45, 32, 32};

		path[max[i]] = '\0';
		assert_int_equal(json_object_set_new(root, keys[i], json_string(path)), 0);
		memset(path, '\n', 512);
	}
	text = activity_record(root, NOW, &at_ns);
	assert_true(text && strlen(text) <= STORE_ACTIVITY_RECORD_MAX);
	assert_non_null(strstr(text, "\"path\":\"\\n\\n"));
	path[512] = '\n';
	assert_int_equal(json_object_set_new(long_one, "path", json_string(path)), 0);
	none = activity_record(long_one, NOW, &at_ns);
	assert_true(none && !strstr(none, "path"));
	json_decref(root);
	json_decref(long_one);
}

static void test_lost(void **state)
{
	_cleanup_free_ char *text = activity_record_lost(7, NOW);

	assert_string_equal(text, "{\"time\":\"2027-01-15T08:00:00Z\",\"count\":7}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members_in_order),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_many_names),
		cmocka_unit_test(test_what_is_wrong_is_left_out),
		cmocka_unit_test(test_no_object),
		cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
