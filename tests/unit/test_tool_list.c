/* Lists of tools of which some are left out. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "intercept/tool_list.h"

static bool shows(void *arg, const char *name)
{
	return strncmp(name, "drop", 4) != 0;
}

/* In pieces of so many bytes. 0 or an error. */
static int pass(bool events, const char *text, size_t bytes, size_t piece, struct buf *out)
{
	size_t held = 0;
	struct tool_list_options o = {.events = events, .shown = shows, .held = &held};
	struct tool_list *l = tool_list_new(&o);
	int r = 0;

	assert_non_null(l);
	for (size_t i = 0; i < bytes && r == 0; i += piece)
		r = tool_list_bytes(
			l, (const uint8_t *)text + i, bytes - i < piece ? bytes - i : piece, out);
	assert_int_equal(held, tool_list_waiting(l));
	tool_list_free(l);
	assert_int_equal(held, 0);
	return r;
}

static void check(bool events, const char *text, const char *want)
{
	for (size_t piece = 1; piece < 1000; piece = piece * 3 + 1) {
		struct buf out = BUF_INIT(1 << 20);
		int r = pass(events, text, strlen(text), piece, &out);

		if (want && r < 0)
			fail_msg("%s: %d", text, r);
		if (!want)
			assert_int_equal(r, -EBADMSG);
		else if (buf_len(&out) != strlen(want) ||
			 memcmp(buf_head(&out), want, strlen(want)) != 0)
			fail_msg("%s became %.*s", text, (int)buf_len(&out),
				(const char *)buf_head(&out));
		buf_done(&out);
	}
}

#define LIST(tools) "{\"id\":1,\"result\":{\"tools\":[" tools "],\"nextCursor\":\"x\"}}"
#define TOOL(name)  "{\"name\":\"" name "\",\"a\":[{\"name\":\"drop\"}]}"
#define DROP	    "{\"a\":{\"name\":\"read\"},\"name\":\"drop_all\"}"
#define READ	    TOOL("read")

static void a_list(void **state)
{
	static const struct {
		const char *text, *want; /* NULL: no JSON */
	} rows[] = {
		{LIST(""), LIST("")},
		{LIST(READ), LIST(READ)},
		{LIST(DROP), LIST("")},
		{LIST(DROP "," READ " , " DROP "," TOOL("b")), LIST(READ "," TOOL("b"))},
		{LIST(" " READ " , " DROP " "), LIST(READ)},
		{LIST("1,null,[" READ "],\"x\"," READ), LIST(READ)},
		{LIST("{\"nam\\u0065\":\"dr\\u006fp\"}"), LIST("")},
		{LIST("{\"name\":\"read\",\"name\":\"drop\"}"), LIST("")},
		{LIST("{\"name\":{\"name\":\"read\"}}"), LIST("")},
		{LIST("{}"), LIST("")},
		{"{\"r\\u0065sult\":{\"\\u0074ools\":[" DROP "]}}",
			"{\"r\\u0065sult\":{\"\\u0074ools\":[]}}"},
		{"{\"result\":{\"x\":{\"tools\":[" DROP "]}},\"tools\":[" DROP "]}",
			"{\"result\":{\"x\":{\"tools\":[" DROP "]}},\"tools\":[" DROP "]}"},
		{"{\"result\":{\"tools\":[" DROP "],\"tools\":[" DROP "," READ "]}}",
			"{\"result\":{\"tools\":[],\"tools\":[" READ "]}}"},
		{"[ " LIST(DROP) " , {\"id\":2,\"result\":{}}," LIST(DROP "," READ) "]\n",
			"[ " LIST("") " , {\"id\":2,\"result\":{}}," LIST(READ) "]\n"},
		{"{\"id\":1,\"error\":{\"code\":1}}", "{\"id\":1,\"error\":{\"code\":1}}"},
		{"{\"result\": 1.5e3 , \"tools\":tru}", NULL},
		{LIST(READ) "x", NULL},
		{"\"x\"", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(false, rows[i].text, rows[i].want);
}

static void events(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"event: message\ndata: " LIST(DROP "," READ) "\n\n",
			"event: message\ndata:" LIST(READ) "\n\n"},
		{"\xef\xbb\xbf"
		 "data:" LIST(DROP) "\r\n\r\n",
			"\xef\xbb\xbf"
			"data:" LIST("") "\n\n"},
		{"data:" LIST(DROP) "\rid: 7\r\r: ping\r\r",
			"data:" LIST("") "\nid: 7\n\n: ping\n\n"},
		{"data: {\"result\":\ndata: {\"tools\": [\ndata\ndata:" DROP ",\nid:1\ndata:" READ
		 "]}}\n\n",
			"data:{\"result\": {\"tools\": [\nid:1\ndata:" READ "]}}\n\n"},
		{"event: endpoint\ndata: /messages?id={\n\n",
			"event: endpoint\ndata:/messages?id={\n\n"},
		{"data: \ndata:two words\ndata\ndatax: y\ndat\n\n",
			"data:\ndata:two words\ndata\ndatax: y\ndat\n\n"},
		{"data: " LIST(DROP) "\n\ndata: [" LIST(DROP) "]\n\n",
			"data:" LIST("") "\n\ndata:[" LIST("") "]\n\n"},
		{"\xef\xbb"
		 "\xef\xbb\xbf"
		 "data:" LIST(DROP) "\n\n",
			"\xef\xbb\xef\xbb\xbf"
			"data:" LIST(DROP) "\n\n"}, /* of no field that readers know */
		{"data: a\ndata:  b\n\n", "data:a\ndata:  b\n\n"},
		{"data: {\"a\":\nid:1\ndata:  1}\n\n", "data:{\"a\":\nid:1\ndata:  1}\n\n"},
		{"data: {\"result\":\n\n", NULL},
		{"data: {]\n\n", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(true, rows[i].text, rows[i].want);
}

/* What is too large is not shown, and what many hold is bounded. */
static void limits(void **state)
{
	static char text[3 * TOOL_LIST_TOOL_MAX];
	size_t held = TOOL_LIST_HELD_MAX - 100;
	struct tool_list_options o = {.shown = shows, .held = &held};

	for (unsigned over = 0; over < 2; over++) {
		struct buf out = BUF_INIT(1 << 20);
		size_t fixed = strlen("{\"name\":\"read\",\"d\":\"\"}");
		int n = snprintf(text, sizeof(text),
			LIST("{\"name\":\"read\",\"d\":\"%*s\"}," READ),
			(int)(TOOL_LIST_TOOL_MAX - fixed + over), "x");

		assert_int_equal(pass(false, text, (size_t)n, 1000, &out), 0);
		assert_int_equal(buf_len(&out),
			over ? strlen(LIST(READ)) : strlen(LIST(READ)) + TOOL_LIST_TOOL_MAX + 1);
		buf_done(&out);
	}
	for (unsigned shared = 0; shared < 2; shared++) {
		struct buf out = BUF_INIT(1 << 20);
		struct tool_list *l = tool_list_new(&o);
		int n = snprintf(text, sizeof(text), LIST("{\"name\":\"read\",\"d\":\"%*s\"}"),
			shared ? 100 : 10, "x");

		assert_int_equal(tool_list_bytes(l, (const uint8_t *)text, (size_t)n, &out), 0);
		assert_int_equal(buf_len(&out), shared ? strlen(LIST("")) : (size_t)n);
		tool_list_free(l);
		assert_int_equal(held, TOOL_LIST_HELD_MAX - 100);
		buf_done(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list),
		cmocka_unit_test(events),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
