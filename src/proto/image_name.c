#include "proto/image_name.h"

#include <string.h>

#include "base/address.h"
#include "base/str.h"

/* A colon in the first of several parts stands before a port: else it is another kind of source. */
static bool has_good_port(const char *image)
{
	size_t n = strcspn(image, "/");
	const char *colon = memrchr(image, ':', n);
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

	return !image[n] || !colon || (digits && colon + 1 + digits == image + n) ||
	       image[n - 1] == ']';
}

bool image_name_is_plain(const char *image)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-/:@[]";

	return *image && strspn(image, letters) == strlen(image) &&
	       strlen(image) <= IMAGE_NAME_MAX && !strstr(image, "//") && has_good_port(image);
}

bool image_name_has_registry(const char *image)
{
	size_t n = strcspn(image, "/");

	return image[n] &&
	       (memchr(image, '.', n) || memchr(image, ':', n) || address_host_is_loopback(image));
}

bool image_name_is_of(const char *image, const char *registry)
{
	size_t n = strcspn(image, "/");

	return registry && strncmp(registry, image, n) == 0 && (registry[n] == '/' || !registry[n]);
}

char *image_name_whole(const char *image, const char *registry)
{
	const char *last = strrchr(image, '/');
	bool marked = strpbrk(last ? last : image, ":@") != NULL,
	     whole = image_name_has_registry(image);
	/* HOST/PATH is for names of one part, HOST for the others */
	int n = whole ? 0 : (int)(last ? strcspn(registry, "/") : strlen(registry));

	return str_printf("%.*s%s%s%s", n, registry ? registry : "", n ? "/" : "", image,
		marked ? "" : ":latest");
}
