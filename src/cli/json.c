#include "cli/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

static int print(json_t *root, size_t flags, struct error *e)
{
	int r = root ? json_dumpf(root, stdout, flags) : -1;

	if (!root)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	json_decref(root);
	if (r < 0 || putchar('\n') == EOF)
		return error_set(e, ERROR_INTERNAL, EIO, "cannot write the output");
	return 0;
}

int json_print(json_t *root, struct error *e)
{
	return print(root, JSON_INDENT(2), e);
}

int json_print_line(json_t *root, struct error *e)
{
	int r = print(root, JSON_COMPACT, e);

	if (r == 0 && fflush(stdout))
		r = error_set(e, ERROR_INTERNAL, EIO, "cannot write the output");
	return r;
}

json_t *json_text(const char *s)
{
	json_t *text = json_string(s);
	_cleanup_free_ char *ascii = text ? NULL : strdup(s);

	if (text || !ascii)
		return text;
	for (char *p = ascii; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(ascii);
}

int json_add_text(
	json_t *object, const char *name, const char *s, const char *what, struct error *e)
{
	json_t *text = s ? json_string(s) : NULL;

	if (s && !text) /* or memory is out, which shows soon */
		return error_set(e, ERROR_USAGE, EINVAL, "%s is not valid UTF-8", what);
	if (s && json_object_set_new(object, name, text) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return 0;
}

json_t *json_time(unsigned long long realtime_ns)
{
	time_t t = (time_t)(realtime_ns / NS_PER_S);
	struct tm tm;
	char text[32];

	if (!gmtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return json_null();
	return json_string(text);
}
