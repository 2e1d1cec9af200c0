/* Shared parts of making certificates (RFC 5280): the server's own, those of sandboxes'
 * authorities, and those for intercepted hosts. Functions that return bool return false when
 * OpenSSL fails. */
#ifndef PROTO_X509_H
#define PROTO_X509_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <time.h>

enum { X509_DAY_S = 24 * 3600 };

/* A pem_password_cb that gives no passphrase. Without it OpenSSL would ask on the terminal. */
int x509_no_passphrase(char *buf, int size, int writing, void *arg);

/* Sets version 3, a random serial number of 16 bytes, the public key, and the times between which
 * the certificate is valid. */
bool x509_begin(X509 *x, EVP_PKEY *key, time_t from, time_t to);

/* Adds one field of a subject or issuer: "O", "CN". text is ASCII. */
bool x509_add_name(X509_NAME *to, const char *field, const char *text);

/* Adds an extension. value is in the syntax of OpenSSL's x509v3_config(5), so it must not contain
 * untrusted text. issuer: the issuer's certificate; x itself for a self-signed one. */
bool x509_add_extension(X509 *x, X509 *issuer, int nid, const char *value);

#endif
