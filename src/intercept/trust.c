#include "intercept/trust.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "proto/x509.h"

enum { READ_BYTES = 64 << 10 };

/* Returns the number of certificates, or -1 without memory. */
static int add_all(X509_STORE *store, const void *text, size_t n)
{
	BIO *b = BIO_new_mem_buf(text, (int)n);
	int count = 0;

	while (b) {
		X509 *x = PEM_read_bio_X509(b, NULL, x509_no_passphrase, NULL);

		if (!x && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
			break; /* the end */
		if (x && X509_STORE_add_cert(store, x) == 1)
			count++;
		X509_free(x);
		ERR_clear_error();
	}
	ERR_clear_error();
	BIO_free(b);
	return b ? count : -1;
}

/* #calls egress: pread64 */
static int add_file(X509_STORE *store, int fd)
{
	struct buf text = BUF_INIT(TRUST_FILE_MAX);
	uint8_t *p;
	ssize_t n;
	int count;

	while ((p = buf_reserve(&text, READ_BYTES)) &&
		(n = pread(fd, p, READ_BYTES, (off_t)buf_len(&text))) > 0)
		buf_commit(&text, (size_t)n);
	count = buf_len(&text) ? add_all(store, buf_head(&text), buf_len(&text)) : 0;
	buf_done(&text);
	return count;
}

X509_STORE *trust_load(const int fds[TRUST_FILES], const char *roots, unsigned *ret_count)
{
	X509_STORE *store = X509_STORE_new();
	int count, sum = 0;

	for (unsigned i = 0; store && i < TRUST_FILES; i++) {
		count = fds[i] < 0 ? 0 : add_file(store, fds[i]);
		sum = count < 0 || sum < 0 ? -1 : sum + count;
	}
	count = store && roots ? add_all(store, roots, strlen(roots)) : 0;
	if (store && sum >= 0 && count >= 0) {
		*ret_count = (unsigned)(sum + count);
		return store;
	}
	X509_STORE_free(store);
	return NULL;
}
