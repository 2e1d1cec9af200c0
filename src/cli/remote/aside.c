#include "cli/remote/aside.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

struct aside aside_init(const struct remote *remote, unsigned lease_s)
{
	return (struct aside){
		.remote = remote, .renew_ns = lease_s ? 0 : UINT64_MAX, .lease_s = lease_s};
}

void aside_close(struct aside *a)
{
	client_close(a->client);
	a->client = NULL;
}

static int say(struct aside *a, const struct client_request *request, const char *text)
{
	struct client_request full = *request;
	int r = text ? 0 : -ENOMEM;

	if (r == 0 && !a->client)
		r = client_try(&a->remote->home, &a->client, NULL);
	if (r < 0)
		return r;
	full.content_type = "application/json";
	full.length = (int64_t)strlen(text);
	r = client_begin(a->client, &full, NULL);
	if (r == 0)
		r = client_send(a->client, text, strlen(text), NULL);
	return r == 0 ? client_end(a->client, NULL) : r;
}

void aside_say(struct aside *a, const struct client_request *request, json_t *body)
{
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	(void)say(a, request, text); /* see the header */
}

static void listen_to_answers(struct aside *a)
{
	enum client_event ev = CLIENT_HEAD;

	while (a->client && ev != CLIENT_WAIT)
		if (client_next(a->client, &ev, NULL) < 0)
			aside_close(a);
}

static void renew(struct aside *a)
{
	_cleanup_free_ char *target = str_printf("/sandboxes/%s/refreshes", a->remote->id);
	const struct client_request request = {.method = "POST", .target = target};

	if (clock_monotonic_ns() < a->renew_ns || !target)
		return;
	a->renew_ns = clock_monotonic_ns() + REMOTE_RENEW_S * NS_PER_S;
	aside_say(a, &request, json_pack("{s:i}", "duration", (int)a->lease_s)); /* again soon */
}

void aside_step(struct aside *a)
{
	renew(a);
	listen_to_answers(a);
}

struct pollfd aside_poll(const struct aside *a)
{
	return a->client ? client_poll(a->client, false) : (struct pollfd){.fd = -1};
}
