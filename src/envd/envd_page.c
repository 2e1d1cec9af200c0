#include "envd/envd_page.h"

#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_words.h"
#include "proto/html_text.h"

static bool has_any(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasestr(text, words[i]))
			return true;
	return false;
}

/* Node's fetch() sets Sec-Fetch-Mode, but no Sec-Fetch-Site as browsers do. */
static bool is_of_script(const struct http_headers *h)
{
	const char *mode = http_header_get(h, "sec-fetch-mode");
	const char *with = http_header_get(h, "x-requested-with");
	const char *accept = http_header_get(h, "accept");

	if (mode && http_header_get(h, "sec-fetch-site"))
		return strcmp(mode, "navigate") != 0;
	if (with && strcasecmp(with, "XMLHttpRequest") == 0)
		return !mode || strcmp(mode, "navigate") != 0;
	return accept && strcasestr(accept, "application/json") && !strcasestr(accept, "text/html");
}

bool envd_wants_page(const struct request *r)
{
	static const char *const browsers[] = {
		"mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie"};
	const char *agent = http_header_get(&r->head->headers, "user-agent");

	return agent && has_any(agent, browsers, ARRAY_SIZE(browsers)) &&
	       !is_of_script(&r->head->headers);
}

static const char *title_of(const char *message)
{
	static const struct {
		const char *message, *title;
	} titles[] = {
		{ENVD_TEXT_NOT_FOUND, "Sandbox Not Found"},
		{ENVD_TEXT_CLOSED, "Closed Port Error"},
		{ENVD_TEXT_NO_TOKEN, "Missing Traffic Access Token"},
		{ENVD_TEXT_BAD_TOKEN, "Invalid Traffic Access Token"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
		if (strcmp(message, titles[i].message) == 0)
			return titles[i].title;
	return "Sandbox Error";
}

int envd_page(struct buf *out, const char *sandbox_id, unsigned port, const char *message)
{
	const char *title = title_of(message);
	int r = buf_printf(out,
		"<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title></head>\n"
		"<body><h1>%s</h1>\n<p>",
		title, title);

	r = r ? r : html_text_add(out, message);
	r = r ? r : buf_printf(out, ".</p>\n<p>Sandbox: <b>%s</b></p>\n", sandbox_id);
	if (port && strcmp(message, ENVD_TEXT_CLOSED) == 0)
		r = r ? r
		      : buf_printf(out, "<p>There is no service running on port <b>%u</b>.</p>\n",
				port);
	return r ? r : buf_add_str(out, "</body></html>");
}
