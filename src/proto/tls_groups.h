/* How keys are agreed on in all TLS here, as SSL_CTX_set1_groups_list() wants it. A handshake with
 * one of OpenSSL's other groups costs up to 120 ms (ffdhe8192), the event loop's; and the peer may
 * choose among those that are offered. */
#ifndef PROTO_TLS_GROUPS_H
#define PROTO_TLS_GROUPS_H

#define TLS_GROUPS "X25519:P-256:P-384"

#endif
