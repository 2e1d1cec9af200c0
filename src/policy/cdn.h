/* Knows names at content delivery networks. Such a network serves many customers at the same
 * addresses, and picks the customer by the host of each request, which only interception reads in
 * TLS. So whoever may connect to one customer may reach all others (domain fronting). */
#ifndef POLICY_CDN_H
#define POLICY_CDN_H

/* Returns the network that a rule's host (a name, or "*.name") belongs to, as far as the name tells
 * it, or NULL. Names of customers' own are not known here. */
const char *cdn_of(const char *host);

#endif
