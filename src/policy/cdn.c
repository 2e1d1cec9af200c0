#include "policy/cdn.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Names with many customers below them, and well-known registries at such networks. */
static const struct cdn {
	const char *suffix, *network;
} cdns[] = {
	{"akamai.net", "Akamai"},
	{"akamaized.net", "Akamai"},
	{"akamaiedge.net", "Akamai"},
	{"akamaihd.net", "Akamai"},
	{"edgekey.net", "Akamai"},
	{"edgesuite.net", "Akamai"},
	{"cloudfront.net", "CloudFront"},
	{"cloudflare.net", "Cloudflare"},
	{"pages.dev", "Cloudflare"},
	{"workers.dev", "Cloudflare"},
	{"r2.dev", "Cloudflare"},
	{"azureedge.net", "Azure"},
	{"azurefd.net", "Azure"},
	{"azurewebsites.net", "Azure"},
	{"fastly.net", "Fastly"},
	{"fastlylb.net", "Fastly"},
	{"github.io", "Fastly"},
	{"githubusercontent.com", "Fastly"},
	{"unpkg.com", "Cloudflare"},
	{"jsdelivr.net", "jsDelivr"},
	{"appspot.com", "Google"},
	{"firebaseapp.com", "Google"},
	{"web.app", "Google"},
	{"run.app", "Google"},
	{"googleapis.com", "Google"},
	{"googleusercontent.com", "Google"},
	{"vercel.app", "Vercel"},
	{"netlify.app", "Netlify"},
	{"herokuapp.com", "Heroku"},
	{"b-cdn.net", "bunny.net"},
	{"kxcdn.com", "KeyCDN"},
	{"cdn77.org", "CDN77"},
	{"llnwd.net", "Edgio"},
};

const char *cdn_of(const char *host)
{
	if (strncmp(host, "*.", 2) == 0)
		host += 2;
	for (size_t i = 0; i < ARRAY_SIZE(cdns); i++) {
		size_t all = strlen(host), n = strlen(cdns[i].suffix);

		if (str_ends_with(host, cdns[i].suffix) && (all == n || host[all - n - 1] == '.'))
			return cdns[i].network;
	}
	return NULL;
}
