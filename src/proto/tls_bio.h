/* Lets OpenSSL read and write through two functions of the caller, for TLS sessions that do no I/O.
 * OpenSSL's own memory BIOs would copy all bytes once more, and never shrink. */
#ifndef PROTO_TLS_BIO_H
#define PROTO_TLS_BIO_H

#include <openssl/bio.h>

/* The functions are as for BIO_meth_set_read() and BIO_meth_set_write(). They may use
 * BIO_get_data() and BIO_set_data() as they like. Returns NULL when out of memory. The caller
 * releases the result with BIO_meth_free(). */
BIO_METHOD *tls_bio_method(
	int (*read)(BIO *b, char *to, int n), int (*write)(BIO *b, const char *data, int n));

#endif
