#include "proto/tls_bio.h"

static long control(BIO *b, int command, long number, void *p)
{
	return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD *tls_bio_method(
	int (*read)(BIO *b, char *to, int n), int (*write)(BIO *b, const char *data, int n))
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "session");

	if (m && BIO_meth_set_write(m, write) && BIO_meth_set_read(m, read) &&
		BIO_meth_set_ctrl(m, control))
		return m;
	BIO_meth_free(m);
	return NULL;
}
