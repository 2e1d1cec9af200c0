/* Small formats in text: base64, timestamps, signatures of URLs, the user of Basic. The first byte
 * chooses; what is accepted must come back the same. */
#include "fuzz.h"

#include "proto/base64.h"
#include "proto/connect.h"
#include "proto/signature.h"
#include "proto/timestamp.h"

static void try_base64(const uint8_t *data, size_t n)
{
	uint8_t *raw = malloc(base64_decoded_max(n));
	char *text = malloc(base64_encoded_len(base64_decoded_max(n)) + 1);
	ptrdiff_t len;

	check(raw && text);
	len = base64_decode(raw, (const char *)data, n);
	if (len >= 0) {
		size_t padded = base64_encoded_len((size_t)len), bare;
		bool url = n && (memchr(data, '-', n) || memchr(data, '_', n));
		bool standard = n && (memchr(data, '+', n) || memchr(data, '/', n));

		base64_encode(text, raw, (size_t)len);
		bare = base64_encode_nopad(text, raw, (size_t)len);
		check(n == padded || n == bare);
		if (url)
			check(base64_encode_url(text, raw, (size_t)len) == bare);
		/* there is one way to write it in one alphabet */
		check((url && standard) || memcmp(text, data, bare) == 0);
	}
	free(raw);
	free(text);
}

static void try_timestamp(const char *s)
{
	char text[TIMESTAMP_BYTES], once[TIMESTAMP_BYTES];
	struct timestamp t, again;
	uint64_t ns;

	if (timestamp_parse(s, &t) < 0)
		return;
	check(t.ns < 1000000000);
	check(timestamp_parse(timestamp_format(t, text), &again) == 0);
	check(strcmp(timestamp_format(again, once), text) == 0);
	if (timestamp_parse_ns(s, &ns) == 0) {
		check(ns / 1000000000 == (uint64_t)t.s && ns % 1000000000 == t.ns);
		check(strcmp(timestamp_format_ns(ns, once), text) == 0);
	}
}

/* Fields by line: path, operation, user, token, expiration, and a signature somebody made up. */
static void try_signature(char *text)
{
	char *field[6], *rest = text, out[SIGNATURE_BYTES];
	struct signature_input in;
	enum signature_verdict v;

	for (unsigned i = 0; i < 6; i++)
		field[i] = rest ? strsep(&rest, "\n") : NULL;
	in = (struct signature_input){.path = field[0],
		.operation = field[1] ? field[1] : "read",
		.user = field[2],
		.token = field[3] ? field[3] : "t",
		.expiration = field[4]};
	check(signature_make(&in, out) == 0);
	check(strlen(out) == SIGNATURE_BYTES - 1);
	v = signature_check(&in, out, 0);
	check(v != SIGNATURE_WRONG && (in.expiration || v == SIGNATURE_GOOD));
	if (field[5] && strcmp(field[5], out) != 0)
		check(signature_check(&in, field[5], 0) != SIGNATURE_GOOD);
	out[SIGNATURE_BYTES - 2] ^= 1;
	check(signature_check(&in, out, 0) != SIGNATURE_GOOD);
	check(!field[5] || secret_equal(field[5], field[5]));
}

static void try_user(const char *s)
{
	char user[CONNECT_USER_MAX + 1];

	if (connect_basic_user(s, user) > 0)
		check(user[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	text = text_of(data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		try_base64(data + 1, size - 1);
		break;
	case 1:
		try_timestamp(text);
		break;
	case 2:
		try_signature(text);
		break;
	default:
		try_user(text);
		break;
	}
	free(text);
	return 0;
}
