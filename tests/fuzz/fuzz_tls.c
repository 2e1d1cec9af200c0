/* What a client says to the daemon's TLS port. The first byte: as it comes, or as changes of what a
 * real client says; the second: in pieces of how many bytes. */
#include "fuzz.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "http/tls.h"
#include "http/tls_issue.h"
#include "tls_peer.h"

enum { OUT_MAX = 64 << 10, TURNS_MAX = 16 };

static struct tls_context *context;
static SSL_CTX *client;

static void prepare(void)
{
	char dir[] = "/tmp/fuzz-tls-XXXXXX", cert[64], key[64];
	bool made;
	int fd;

	if (context)
		return;
	check(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(tls_issue(fd, "fuzz.test", time(NULL), &made, NULL) == 0);
	(void)snprintf(cert, sizeof(cert), "%s/" TLS_CERT_FILE, dir); /* fits */
	(void)snprintf(key, sizeof(key), "%s/" TLS_KEY_FILE, dir);    /* fits */
	check(tls_context_new(cert, key, &context, NULL) == 0);
	(void)close(fd);
	(void)file_remove_tree(AT_FDCWD, dir);
	client = SSL_CTX_new(TLS_client_method());
	check(client);
}

/* Returns whether the session goes on. */
static bool feed(struct tls_session *s, const uint8_t *data, size_t n, size_t piece)
{
	uint8_t plain[1024];
	ssize_t r = TLS_AGAIN;

	for (size_t at = 0; at < n && r == TLS_AGAIN; at += piece) {
		tls_session_feed(s, data + at, n - at < piece ? n - at : piece);
		do {
			r = tls_session_read(s, plain, sizeof(plain));
			check(r <= (ssize_t)sizeof(plain) && r >= TLS_FAILED);
			check(r <= 0 || tls_session_is_ready(s));
			if (r > 0)
				(void)tls_session_write(s, plain, (size_t)r); /* out may be full */
		} while (r > 0);
	}
	return r == TLS_AGAIN;
}

static void play(
	struct tls_session *s, struct buf *out, const uint8_t *patches, size_t n, size_t piece)
{
	struct tls_peer p = tls_peer_make(client, patches, n);
	bool goes_on = true;

	SSL_set_connect_state(p.ssl);
	(void)SSL_set_tlsext_host_name(p.ssl, "sandbox.fuzz.test");
	for (int turn = 0; turn < TURNS_MAX && goes_on; turn++) {
		uint8_t data[OUT_MAX];
		size_t k = tls_peer_turn(&p, data, sizeof(data));

		if (tls_session_is_ready(s) && turn == TURNS_MAX / 2)
			tls_session_end(s);
		goes_on = k > 0 && feed(s, data, k, piece);
		if (buf_len(out))
			(void)BIO_write(p.in, buf_head(out), (int)buf_len(out)); /* memory */
		buf_consume(out, buf_len(out));
	}
	SSL_free(p.ssl);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(OUT_MAX);
	struct tls_session *s;
	size_t piece;

	if (size < 2)
		return 0;
	prepare();
	s = tls_session_new(context, &out);
	check(s);
	piece = data[1] ? data[1] : size;
	if (data[0] & 1)
		play(s, &out, data + 2, size - 2, piece);
	else
		(void)feed(s, data + 2, size - 2, piece);
	check(buf_len(&out) <= OUT_MAX);
	tls_session_free(s);
	buf_done(&out);
	return 0;
}
