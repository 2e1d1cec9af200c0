#include "intercept/trust.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "proto/x509.h"

enum { READ_BYTES = 64 << 10, TEXTS = TRUST_FILES + 1 };

struct trust_loader {
	X509_STORE *store;
	struct buf texts[TEXTS];
	BIO *bio; /* of the text that is being read; NULL: not begun */
	unsigned at, count;
};

/* #calls egress: pread64 */
static void read_file(int fd, struct buf *text)
{
	uint8_t *p;
	ssize_t n;

	while ((p = buf_reserve(text, READ_BYTES)) &&
		(n = pread(fd, p, READ_BYTES, (off_t)buf_len(text))) > 0)
		buf_commit(text, (size_t)n);
}

struct trust_loader *trust_begin(const int fds[TRUST_FILES], const char *roots)
{
	struct trust_loader *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->store = X509_STORE_new();
	for (unsigned i = 0; i < TEXTS; i++)
		buf_init(&t->texts[i], TRUST_FILE_MAX);
	for (unsigned i = 0; i < TRUST_FILES; i++)
		if (fds[i] >= 0)
			read_file(fds[i], &t->texts[i]);
	if (!t->store || (roots && buf_add_str(&t->texts[TRUST_FILES], roots) < 0)) {
		trust_free(t);
		return NULL;
	}
	return t;
}

/* Returns whether there may be more in this text. */
static bool take_one(struct trust_loader *t)
{
	X509 *x = PEM_read_bio_X509(t->bio, NULL, x509_no_passphrase, NULL);
	bool end = !x && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;

	if (x && X509_STORE_add_cert(t->store, x) == 1)
		t->count++;
	X509_free(x);
	ERR_clear_error();
	return !end;
}

static void end_text(struct trust_loader *t)
{
	BIO_free(t->bio);
	t->bio = NULL;
	buf_done(&t->texts[t->at++]);
}

int trust_step(struct trust_loader *t)
{
	for (unsigned n = 0; n < TRUST_STEP && t->at < TEXTS; n++) {
		const struct buf *text = &t->texts[t->at];

		if (!t->bio && buf_len(text)) {
			t->bio = BIO_new_mem_buf(buf_head(text), (int)buf_len(text));
			if (!t->bio)
				return -ENOMEM;
		}
		if (!t->bio || !take_one(t))
			end_text(t);
	}
	return t->at == TEXTS;
}

X509_STORE *trust_store(struct trust_loader *t, unsigned *ret_count)
{
	*ret_count = t->count;
	(void)X509_STORE_up_ref(t->store); /* always 1 */
	return t->store;
}

void trust_free(struct trust_loader *t)
{
	if (!t)
		return;
	BIO_free(t->bio);
	for (unsigned i = 0; i < TEXTS; i++)
		buf_done(&t->texts[i]);
	X509_STORE_free(t->store);
	free(t);
}
