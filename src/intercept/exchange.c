#include "intercept/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/exchange_internal.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

int exchange_new(const struct exchange_options *options, struct exchange **ret)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->kind = options->protocol == EXCHANGE_HTTP2 ? &exchange_http2 : &exchange_http1;
	x->port = options->port;
	x->plain = options->plain;
	x->callbacks = options->callbacks;
	x->budget = options->budget;
	x->intercept = intercept_ref(options->intercept);
	x->host = strdup(options->host);
	x->server_host = strdup(options->server_host ? options->server_host : options->host);
	x->server_path = strdup(options->server_path ? options->server_path : "");
	x->server_port = options->server_host ? options->server_port : options->port;
	buf_init_secret(&x->out[EXCHANGE_GUEST], EXCHANGE_HELD_MAX);
	buf_init_secret(&x->out[EXCHANGE_SERVER], EXCHANGE_HELD_MAX);
	if (!x->host || !x->server_host || !x->server_path || x->kind->make(x) < 0) {
		exchange_free(x);
		return -ENOMEM;
	}
	*ret = x;
	return 0;
}

void exchange_free(struct exchange *x)
{
	if (!x)
		return;
	x->kind->free(x);
	intercept_unref(x->intercept);
	buf_done(&x->out[EXCHANGE_GUEST]);
	buf_done(&x->out[EXCHANGE_SERVER]);
	free(x->host);
	free(x->server_host);
	free(x->server_path);
	free(x);
}

void exchange_set_intercept(struct exchange *x, struct intercept *intercept)
{
	intercept_ref(intercept);
	intercept_unref(x->intercept);
	x->intercept = intercept;
}

void exchange_finish(struct exchange *x, enum exchange_state state, const char *reason)
{
	if (x->state != EXCHANGE_GOING)
		return;
	x->state = state;
	(void)snprintf(x->reason, sizeof(x->reason), "%s", reason ? reason : ""); /* may be cut */
}

const char *exchange_said_much(const struct exchange *x)
{
	if (x->said < EXCHANGE_SAID_MAX)
		return NULL;
	return x->said < EXCHANGE_SAID_CUT ? "answers of the server had 64 secrets in them"
					   : "answers of the server had 256 secrets in them";
}

size_t exchange_receive(struct exchange *x, enum exchange_side from, const void *data, size_t n)
{
	size_t taken = x->state == EXCHANGE_GOING ? x->kind->receive(x, from, data, n) : n;

	return x->state == EXCHANGE_GOING ? taken : n;
}

void exchange_receive_end(struct exchange *x, enum exchange_side from)
{
	if (x->state == EXCHANGE_GOING)
		x->kind->receive_end(x, from);
}

bool exchange_wants(const struct exchange *x, enum exchange_side from)
{
	return x->state == EXCHANGE_GOING && x->kind->wants(x, from);
}

const uint8_t *exchange_output(struct exchange *x, enum exchange_side to, size_t *ret_n)
{
	*ret_n = buf_len(&x->out[to]);
	return *ret_n ? buf_head(&x->out[to]) : NULL;
}

void exchange_sent(struct exchange *x, enum exchange_side to, size_t n)
{
	buf_consume(&x->out[to], n);
	if (buf_len(&x->out[to]) == 0)
		buf_done(&x->out[to]); /* wipes it, and gives the memory back */
	if (x->state == EXCHANGE_GOING)
		x->kind->drained(x, to);
}

bool exchange_is_quiet(const struct exchange *x)
{
	return x->kind->is_quiet(x);
}

void exchange_end(struct exchange *x)
{
	if (x->state == EXCHANGE_GOING)
		x->kind->end(x);
}

enum exchange_state exchange_state(const struct exchange *x)
{
	return x->state;
}

const char *exchange_reason(const struct exchange *x)
{
	return x->reason;
}

void exchange_fail_server(struct exchange *x, const char *reason)
{
	if (x->state != EXCHANGE_GOING || x->server_failed)
		return;
	x->server_lost = exchange_is_held(x);
	x->server_failed = true;
	(void)snprintf(x->server_reason, sizeof(x->server_reason), "%s", reason); /* may be cut */
	buf_done(&x->out[EXCHANGE_SERVER]);
	x->kind->server_failed(x);
}

size_t exchange_memory(const struct exchange *x)
{
	return sizeof(*x) + x->out[EXCHANGE_GUEST].capacity + x->out[EXCHANGE_SERVER].capacity +
	       x->kind->memory(x);
}

void exchange_authority(const struct exchange *x, char out[EXCHANGE_AUTHORITY_MAX])
{
	if (x->server_port == (x->plain ? HTTP_PORT : HTTPS_PORT))
		(void)snprintf(out, EXCHANGE_AUTHORITY_MAX, "%s", x->server_host); /* fits */
	else
		(void)snprintf(out, EXCHANGE_AUTHORITY_MAX, "%s:%u", x->server_host,
			x->server_port); /* likewise */
}

const char *exchange_prefix(const struct exchange *x, const char *path)
{
	return path[0] == '/' ? x->server_path : "";
}
