/* The key exchange groups that every TLS context of Mayfly offers, for SSL_CTX_set1_groups_list().
 * The peer chooses among them. Handshakes run on event loops, and OpenSSL's other groups take up to
 * 120 ms each (ffdhe8192). */
#ifndef PROTO_TLS_GROUPS_H
#define PROTO_TLS_GROUPS_H

#define TLS_GROUPS "X25519:P-256:P-384"

#endif
