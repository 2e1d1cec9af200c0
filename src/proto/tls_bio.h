/* How OpenSSL reads and writes in sessions that do no I/O: functions of the session's owner.
 * OpenSSL's own memory BIOs would copy everything once more, and keep their largest size. */
#ifndef PROTO_TLS_BIO_H
#define PROTO_TLS_BIO_H

#include <openssl/bio.h>

/* Both as BIO_meth_set_read() and BIO_meth_set_write() want them; BIO_get_data() is theirs. Returns
 * NULL without memory; BIO_meth_free() frees it. */
BIO_METHOD *tls_bio_method(
	int (*read)(BIO *b, char *to, int n), int (*write)(BIO *b, const char *data, int n));

#endif
