/* What our certificates have in common, whoever makes them: those of `serve`, of a sandbox's
 * authority and of intercepted hosts (RFC 5280). */
#ifndef PROTO_X509_H
#define PROTO_X509_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <time.h>

enum { X509_DAY_S = 24 * 3600 };

/* For OpenSSL's readers of keys, which would ask on the terminal otherwise. */
int x509_no_passphrase(char *buf, int size, int writing, void *arg);

/* Version 3, a random serial number of 16 bytes, the key, and the time in which it counts. */
bool x509_begin(X509 *x, EVP_PKEY *key, time_t from, time_t to);

/* Adds one field of a subject or issuer: "O", "CN". text is ASCII. */
bool x509_add_name(X509_NAME *to, const char *field, const char *text);

/* An extension in OpenSSL's words (x509v3_config). issuer: x itself, if it signs itself. Text of
 * others must not get into value. */
bool x509_add_extension(X509 *x, X509 *issuer, int nid, const char *value);

#endif
