/* A connection to a port of a guest (upstream.h), over TLS where the sandbox's `httpsPorts` says
 * so.
 *
 * TLS 1.2 and 1.3 as a client, with HTTP/1.1 as its protocol (ALPN). The certificate is not
 * verified, whatever it says: the connection cannot lead anywhere else. Keys of more than 4,096
 * bits are refused, as each handshake runs on the event loop; so are certificates of more than 32
 * KiB, and groups other than those of tls_groups.h. A handshake may take 20 seconds.
 *
 * The functions and callbacks work like those of upstream.h. After ops->lost or ops->no_tls the
 * owner may only call port_close(). No callback follows port_close(), even if a callback makes that
 * call. */
#ifndef ENVD_PORT_H
#define ENVD_PORT_H

#include "fleet/upstream.h"
#include "http/request.h"

struct port;

struct port_ops {
	void (*opened)(void *arg); /* the port has accepted; TLS may still fail */
	void (*data)(const uint8_t *data, size_t n, void *arg);
	void (*eof)(void *arg);
	void (*writable)(void *arg);
	void (*lost)(enum agent_error_class why, void *arg); /* final */
	void (*no_tls)(
		const char *why, void *arg); /* final: the port speaks something else, or badly */
};

int port_open(uv_loop_t *loop, struct instance *i, uint16_t number, bool tls,
	const struct port_ops *ops, void *arg, struct port **ret);
void port_charge(struct port *p, const struct request *r); /* counts what waits (request_hold()) */
int port_write(struct port *p, const void *data, size_t n);
void port_shutdown(struct port *p);
void port_pause(struct port *p);
void port_resume(struct port *p);
void port_close(struct port *p); /* NULL is fine */

#endif
