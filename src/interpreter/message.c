#include "interpreter/message.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"

static const char delimiter[] = "<IDS|MSG>";

enum { SIGNED_FRAMES = 4 }; /* header, parent_header, metadata, content */

/* Signs four consecutive frames. */
static int sign(const struct frame *frames, const char *key, char out[MESSAGE_SIGNATURE_CHARS + 1])
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *h = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
	unsigned char sum[EVP_MAX_MD_SIZE];
	size_t n = 0;
	bool ok = h && EVP_MAC_init(h, (const unsigned char *)key, strlen(key), params);

	for (size_t i = 0; ok && i < SIGNED_FRAMES; i++)
		ok = EVP_MAC_update(h, frames[i].data, frames[i].n);
	ok = ok && EVP_MAC_final(h, sum, &n, sizeof(sum)) && n * 2 == MESSAGE_SIGNATURE_CHARS;
	EVP_MAC_CTX_free(h);
	EVP_MAC_free(hmac);
	if (!ok)
		return -ENOMEM;
	str_hex(sum, n, out);
	return 0;
}

static bool signature_is(const struct frame *given, const struct frame *frames, const char *key)
{
	char want[MESSAGE_SIGNATURE_CHARS + 1];

	return given->n == MESSAGE_SIGNATURE_CHARS && sign(frames, key, want) == 0 &&
	       CRYPTO_memcmp(given->data, want, given->n) == 0;
}

static json_t *parse_object(const struct frame *f)
{
	json_t *j = json_loadb(f->n ? f->data : "", f->n, JSON_ALLOW_NUL, NULL);

	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

/* Copies a string member of an object to out; "" when it is missing or too long. */
static void copy_member(const struct frame *object, const char *name, char *out, size_t bytes)
{
	json_t *j = object->n <= MESSAGE_HEADER_MAX ? parse_object(object) : NULL;
	const char *s = json_string_value(json_object_get(j, name));
	size_t n = s ? json_string_length(json_object_get(j, name)) : 0;

	if (n >= bytes || (s && strlen(s) != n))
		n = 0;
	if (n)
		memcpy(out, s, n);
	out[n] = '\0';
	json_decref(j);
}

int message_decode(const struct frame *frames, size_t count, const char *key, struct message *ret)
{
	const size_t delimiter_n = sizeof(delimiter) - 1;
	size_t i = 0;

	while (i < count &&
		(frames[i].n != delimiter_n || memcmp(frames[i].data, delimiter, delimiter_n) != 0))
		i++;
	if (count - i < MESSAGE_FRAMES_SENT)
		return -EBADMSG;
	if (!signature_is(&frames[i + 1], &frames[i + 2], key))
		return -EPERM;
	copy_member(&frames[i + 2], "msg_type", ret->type, sizeof(ret->type));
	copy_member(&frames[i + 3], "msg_id", ret->parent_id, sizeof(ret->parent_id));
	ret->content = frames[i + 5];
	return *ret->type ? 0 : -EBADMSG;
}

/* Returns the length of the well-formed character at s, or 0 if there is none. */
static size_t character(const char *s, size_t n)
{
	for (size_t k = 1; k <= 4 && k <= n; k++)
		if (json_text_is_utf8(s, k))
			return k;
	return 0;
}

static json_t *parse_repaired(const struct frame *f)
{
	_cleanup_free_ char *copy = malloc(f->n + 1);
	struct frame repaired = {copy, f->n};

	if (!copy)
		return NULL;
	memcpy(copy, f->data, f->n);
	for (size_t i = 0; i < f->n;) {
		size_t k = character(copy + i, f->n - i);

		if (!k)
			copy[i] = '?';
		i += k ? k : 1;
	}
	return parse_object(&repaired);
}

json_t *message_content(const struct message *m)
{
	const struct frame *f = &m->content;
	json_t *j = parse_object(f);

	if (j || !f->n || json_text_is_utf8(f->data, f->n))
		return j;
	return parse_repaired(f);
}

int message_encode(struct message_out *out, const char *type, const char *id, const char *session,
	const void *content, size_t n, const char *key)
{
	char date[TIMESTAMP_BYTES];

	*out = (struct message_out){.header = BUF_INIT(MESSAGE_HEADER_MAX)};
	if (buf_printf(&out->header,
		    "{\"msg_id\":\"%s\",\"session\":\"%s\",\"username\":\"mayfly\",\"date\":\"%s\","
		    "\"msg_type\":\"%s\",\"version\":\"5.3\"}",
		    id, session, timestamp_format_ns(clock_realtime_ns(), date), type) < 0)
		return -ENOMEM;
	out->frames[0] = (struct frame){delimiter, sizeof(delimiter) - 1};
	out->frames[1] = (struct frame){out->signature, MESSAGE_SIGNATURE_CHARS};
	out->frames[2] = (struct frame){buf_head(&out->header), buf_len(&out->header)};
	out->frames[3] = (struct frame){"{}", 2};
	out->frames[4] = (struct frame){"{}", 2};
	out->frames[5] = (struct frame){content, n};
	if (sign(out->frames + 2, key, out->signature) < 0) {
		message_out_done(out);
		return -ENOMEM;
	}
	return 0;
}

void message_out_done(struct message_out *out)
{
	buf_done(&out->header);
}
