#include "oci/destination.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/address.h"
#include "base/place.h"
#include "base/str.h"

static enum oci_zone zone_of_v4(uint32_t address)
{
	if (address >> 24 == 127)
		return OCI_ZONE_LOOPBACK;
	switch (place_of(address, NULL)) {
	case PLACE_PUBLIC:
		return OCI_ZONE_PUBLIC;
	case PLACE_PRIVATE:
		return address >> 16 == 0xa9fe ? OCI_ZONE_CLOSED : OCI_ZONE_PRIVATE;
	default:
		return OCI_ZONE_CLOSED;
	}
}

static enum oci_zone zone_of_v6(const struct sockaddr *a)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
	uint32_t four;

	if (IN6_IS_ADDR_LOOPBACK(six))
		return OCI_ZONE_LOOPBACK;
	if (IN6_IS_ADDR_V4MAPPED(six)) {
		memcpy(&four, six->s6_addr + 12, sizeof(four));
		return zone_of_v4(ntohl(four));
	}
	if ((six->s6_addr[0] & 0xfe) == 0xfc)
		return OCI_ZONE_PRIVATE;
	return address_is_public(a) ? OCI_ZONE_PUBLIC : OCI_ZONE_CLOSED;
}

enum oci_zone oci_zone_of(const struct sockaddr *a)
{
	enum oci_zone zone = OCI_ZONE_CLOSED;

	if (a->sa_family == AF_INET)
		zone = zone_of_v4(
			ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr));
	else if (a->sa_family == AF_INET6)
		zone = zone_of_v6(a);
	return zone != OCI_ZONE_CLOSED && address_is_own(a) ? OCI_ZONE_LOOPBACK : zone;
}

static bool is_open(const struct oci_reach *r, const struct sockaddr *a)
{
	uint32_t address;

	if (a->sa_family != AF_INET)
		return false;
	address = ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
	for (unsigned i = 0; i < r->count && i < OCI_REACH_NETS_MAX; i++)
		if (net_has(&r->nets[i], address))
			return true;
	return false;
}

bool oci_reach_allows(const struct oci_reach *r, const struct sockaddr *a)
{
	enum oci_zone zone = r->public_only ? oci_zone_of(a) : OCI_ZONE_PUBLIC;

	return zone == OCI_ZONE_PUBLIC || (zone != OCI_ZONE_LOOPBACK && is_open(r, a));
}

bool oci_zone_allowed(enum oci_zone registry, enum oci_zone to)
{
	return to == OCI_ZONE_PUBLIC || (to == registry && to != OCI_ZONE_CLOSED);
}

/* The parts of a URL that say where it leads; owned by curl. */
struct place_parts {
	char *scheme, *host, *port, *user;
};

static bool take_parts(const char *url, struct place_parts *p)
{
	CURLU *u = curl_url();
	bool good = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
		    curl_url_get(u, CURLUPART_SCHEME, &p->scheme, 0) == CURLUE_OK &&
		    curl_url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
		    curl_url_get(u, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT) == CURLUE_OK;

	if (good)
		(void)curl_url_get(u, CURLUPART_USER, &p->user, 0); /* there should be none */
	curl_url_cleanup(u);
	return good;
}

static void parts_done(struct place_parts *p)
{
	curl_free(p->scheme);
	curl_free(p->host);
	curl_free(p->port);
	curl_free(p->user);
}

static bool allowed(const struct place_parts *from, const struct place_parts *to)
{
	if (to->user)
		return false;
	if (strcmp(to->scheme, "https") == 0)
		return true;
	return strcmp(to->scheme, "http") == 0 && strcmp(from->scheme, "http") == 0;
}

bool oci_redirect_allowed(const char *from, const char *to, bool *ret_same)
{
	struct place_parts a = {0}, b = {0};
	bool good = take_parts(from, &a) && take_parts(to, &b) && allowed(&a, &b);

	*ret_same = good && strcmp(a.scheme, b.scheme) == 0 && strcasecmp(a.host, b.host) == 0 &&
		    strcmp(a.port, b.port) == 0;
	parts_done(&a);
	parts_done(&b);
	return good;
}
