#include "egress/consent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "egress/context.h"

static int say(struct consent *k)
{
	struct buf line = BUF_INIT(CONSENT_LINE_MAX);
	int r = buf_printf(
		&line, "{\"ask\":{\"id\":%llu,%s}\n", (unsigned long long)k->id, k->members + 1);

	r = r ? r : link_send(&k->context->link, &line);
	buf_done(&line);
	return r;
}

static void leave(struct consent *k)
{
	*(k->previous ? &k->previous->next : &k->context->consents) = k->next;
	if (k->next)
		k->next->previous = k->previous;
	k->context = NULL;
	free(k->members);
	k->members = NULL;
}

/* An object that begins with a brace: the id comes behind it. What the guest says may be any bytes,
 * and what is no text is left out. */
static char *write_members(const struct consent_question *q)
{
	const struct {
		const char *name, *value;
	} texts[] = {{"rule", q->rule}, {"host", q->host}, {"address", q->address},
		{"program", q->program}, {"scheme", q->scheme}, {"method", q->method},
		{"path", q->path}, {"preview", q->preview}};
	json_t *object = json_pack("{s:i}", "port", (int)q->port);
	char *text = NULL;

	for (unsigned i = 0; object && i < ARRAY_SIZE(texts); i++)
		if (texts[i].value && texts[i].value[0])
			(void)json_object_set_new(object, texts[i].name,
				json_string(texts[i].value)); /* no UTF-8: without */
	if (object && q->body_bytes >= 0 && q->method)
		(void)json_object_set_new(
			object, "bodyBytes", json_integer(q->body_bytes)); /* or without */
	if (object)
		text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(object);
	return text;
}

int consent_ask(struct context *c, struct consent *k, const struct consent_question *q)
{
	int r;

	k->members = write_members(q);
	if (!k->members)
		return -ENOMEM;
	k->context = c;
	k->id = ++c->consent_ids;
	r = say(k);
	k->previous = NULL;
	k->next = c->consents;
	if (k->next)
		k->next->previous = k;
	c->consents = k;
	if (r < 0)
		leave(k);
	return r;
}

void consent_end(struct consent *k)
{
	struct buf line = BUF_INIT(64);
	struct context *c = k->context;

	if (!c)
		return;
	if (buf_printf(&line, "{\"ask\":{\"id\":%llu,\"end\":true}}\n",
		    (unsigned long long)k->id) == 0)
		(void)link_send(&c->link, &line); /* else it answers in vain */
	buf_done(&line);
	leave(k);
}

void consent_tell(struct context *c)
{
	for (struct consent *k = c->consents; k; k = k->next)
		(void)say(k); /* one that cannot be told waits for the next daemon */
}

int consent_take(struct context *c, const json_t *message)
{
	const char *decision = json_string_value(json_object_get(message, "decision"));
	const char *reason = json_string_value(json_object_get(message, "reason"));
	const json_t *id = json_object_get(message, "id");
	char text[CONSENT_REASON_MAX + 1];
	struct consent *k = c->consents;
	bool allowed = decision && strcmp(decision, "allow") == 0;

	if (!json_is_integer(id) || !decision || (!allowed && strcmp(decision, "deny") != 0))
		return -EINVAL;
	while (k && (json_int_t)k->id != json_integer_value(id))
		k = k->next;
	if (!k)
		return 0;						/* it has ended meanwhile */
	(void)snprintf(text, sizeof(text), "%s", reason ? reason : ""); /* or is cut */
	leave(k);
	k->done(k->arg, allowed, text);
	return 0;
}
