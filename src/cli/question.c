#include "cli/question.h"

#include <string.h>
#include <termios.h>
#include <time.h>

#include "base/cleanup.h"
#include "network/approval_question.h"
#include "proto/json_tree.h"

enum { DEAF_MS = 300, CONTROL_C = 3, CONTROL_D = 4 };

static int put(struct buf *b, const json_t *a, const char *key, const char *before)
{
	const char *text = json_tree_text(a, key);

	return *text ? buf_printf(b, "%s%s", before, text) : 0;
}

int question_describe(const json_t *approval, struct buf *line)
{
	const char *method = json_tree_text(approval, "method"),
		   *host = json_tree_text(approval, "host");
	_cleanup_free_ char *call = approval_call_text(approval);
	_cleanup_free_ char *headers = approval_headers_text(approval, " header ");
	int r = buf_printf(line, "%s%s%s:%lld%s", method, *method ? " " : "",
		*host ? host : json_tree_text(approval, "address"),
		(long long)json_integer_value(json_object_get(approval, "port")),
		json_tree_text(approval, "path"));

	r = r ? r : put(line, approval, "program", " by ");
	r = r ? r : put(line, approval, "rule", " rule ");
	r = r ? r : put(line, approval, "decidedBy", " decided by ");
	r = r ? r : put(line, approval, "reason", ": ");
	r = r ? r : put(line, approval, "budget", " budget ");
	if (r == 0 && call)
		r = buf_printf(line, " call %s", call);
	if (r == 0 && headers)
		r = buf_add_str(line, headers);
	r = r ? r : put(line, approval, "bodyCoding", " body in ");
	r = r ? r : put(line, approval, "preview", " body ");
	if (r == 0 && json_object_get(approval, "hiddenBytes"))
		r = buf_printf(line, " (%lld bytes of it hidden)",
			(long long)json_integer_value(json_object_get(approval, "hiddenBytes")));
	if (r == 0 && json_is_true(json_object_get(approval, "partial")))
		r = buf_add_str(line, " ... (there is more)");
	return r;
}

void question_drop_keys(int terminal_fd)
{
	static const struct timespec deaf = {.tv_nsec = DEAF_MS * 1000000L};

	(void)nanosleep(&deaf, NULL);	      /* a shorter one is fine */
	(void)tcflush(terminal_fd, TCIFLUSH); /* or the key counts, and shows */
}

char question_key(char pressed, const char *keys)
{
	if (pressed == CONTROL_C || pressed == CONTROL_D)
		pressed = 'q';
	return pressed && strchr(keys, pressed) ? pressed : 0;
}
