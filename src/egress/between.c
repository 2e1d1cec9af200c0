#include "egress/between.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "egress/context.h"
#include "proto/base64.h"

enum { LINE_MAX_BYTES = 512 };

static int say(struct context *c, struct buf *line, int r)
{
	r = r ? r : link_send(&c->link, line);
	buf_done(line);
	return r;
}

/* `to` has no character that JSON would escape. */
static int say_ask(const struct between *b)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int r = buf_printf(&line, "{\"between\":{\"id\":%llu,\"port\":%u,\"to\":\"%s\"%s}}\n",
		(unsigned long long)b->id, b->port, b->to, b->open ? ",\"open\":true" : "");

	return say(b->context, &line, r);
}

static void leave(struct between *b)
{
	*(b->previous ? &b->previous->next : &b->context->between) = b->next;
	if (b->next)
		b->next->previous = b->previous;
	b->context = NULL;
}

int between_ask(struct context *c, struct between *b, uint16_t port, const char *to)
{
	int r;

	b->context = c;
	b->id = ++c->between_ids;
	b->port = port;
	(void)snprintf(b->to, sizeof(b->to), "%s", to); /* as long */
	r = say_ask(b);
	if (r < 0) {
		b->context = NULL;
		return r;
	}
	b->previous = NULL;
	b->next = c->between;
	if (b->next)
		b->next->previous = b;
	c->between = b;
	return 0;
}

void between_end(struct between *b, uint64_t up, uint64_t down, bool reset)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	struct context *c = b->context;
	int r;

	if (!c)
		return;
	r = buf_printf(&line,
		"{\"between\":{\"id\":%llu,\"end\":true,\"up\":%llu,\"down\":%llu,\"reset\":%s}}\n",
		(unsigned long long)b->id, (unsigned long long)up, (unsigned long long)down,
		reset ? "true" : "false");
	leave(b);
	(void)say(c, &line, r); /* records leave room for it */
}

void between_tell(struct context *c)
{
	/* those that are not open wait until they are late */
	for (struct between *b = c->between, *next; b; b = next) {
		next = b->next;
		if (say_ask(b) < 0 && b->open)
			b->over(b->arg); /* nobody could judge it */
	}
}

/* --- the daemon's words --- */

static struct between *find(const struct context *c, const json_t *message)
{
	const json_t *id = json_object_get(message, "id");
	struct between *b = c->between;

	while (b && (json_int_t)b->id != json_integer_value(id))
		b = b->next;
	return b;
}

static int error_of(const char *name)
{
	static const struct {
		const char *name;
		int err;
	} errors[] = {{"ECONNREFUSED", ECONNREFUSED}, {"ETIMEDOUT", ETIMEDOUT}};

	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++)
		if (strcmp(name, errors[i].name) == 0)
			return errors[i].err;
	return EHOSTUNREACH;
}

static void refuse(struct between *b, const char *error, const char *reason)
{
	const struct between_answer a = {.fd = -1,
		.err = error ? error_of(error) : 0,
		.reason = reason ? reason : "the daemon gives no reason"};

	leave(b);
	b->done(b->arg, &a);
}

/* Decodes the bytes that came before the descriptor was handed over. Returns -EINVAL if they are
 * malformed. */
static ssize_t decode(const json_t *v, uint8_t **ret)
{
	size_t n = json_string_length(v);
	ptrdiff_t r;

	*ret = NULL;
	if (!v)
		return 0;
	*ret = json_is_string(v) && base64_decoded_max(n) <= BETWEEN_EARLY_MAX + 3
		       ? malloc(base64_decoded_max(n) + 1)
		       : NULL;
	r = *ret ? base64_decode(*ret, json_string_value(v), n) : -1;
	return r < 0 || r > BETWEEN_EARLY_MAX ? -EINVAL : r;
}

/* Takes the descriptor. */
static int open_one(struct between *b, const json_t *message, int fd)
{
	const char *to = json_string_value(json_object_get(message, "to"));
	_cleanup_free_ uint8_t *early = NULL;
	ssize_t n = decode(json_object_get(message, "early"), &early);

	if (n < 0 || b->open || !to || strlen(to) >= sizeof(b->to) || fd_set_nonblock(fd, 1) < 0) {
		(void)close(fd); /* a socket */
		return -EINVAL;
	}
	(void)strcpy(b->to, to); /* fits */
	b->open = true;
	b->done(b->arg,
		&(struct between_answer){.fd = fd, .early = early, .early_bytes = (size_t)n});
	return 0;
}

int between_take(struct context *c, const json_t *message, int fd)
{
	struct between *b = find(c, message);

	if (!json_is_object(message) || !b) {
		cleanup_close_p(&fd);
		return json_is_object(message) ? 0 : -EINVAL; /* it has ended meanwhile */
	}
	if (fd >= 0)
		return open_one(b, message, fd);
	if (b->open)
		b->over(b->arg);
	else
		refuse(b, json_string_value(json_object_get(message, "error")),
			json_string_value(json_object_get(message, "denied")));
	return 0;
}
