#include "policy/placeholder.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "policy/seal.h"

/* Longer ones come before those that they begin with. */
static const char *const prefixes[] = {"sk-ant-api03-", "sk-ant-", "sk-proj-", "sk-svcacct-",
	"sk-or-v1-", "sk-", "sk_live_", "sk_test_", "pk_live_", "pk_test_", "rk_live_", "rk_test_",
	"github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "xoxb-", "xoxp-", "xapp-",
	"hf_", "npm_", "pypi-", "gsk_", "r8_", "dop_v1_", "SG.", "lin_api_", "whsec_", "e2b_",
	"AKIA", "AIza", "xai-", "pplx-", "nvapi-", "tvly-"};

static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char digits[] = "0123456789";
static const char hex[] = "0123456789abcdef";

static size_t prefix_of(const char *secret)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (str_starts_with(secret, prefixes[i]))
			return strlen(prefixes[i]);
	return 0;
}

/* Without the bias that a remainder alone would have. */
static int pick(const char *set, char *ret)
{
	size_t n = strlen(set);
	uint8_t byte;

	do
		if (RAND_bytes(&byte, 1) != 1)
			return -EIO;
	while (byte >= 256 / n * n);
	*ret = set[byte % n];
	return 0;
}

/* NULL: the character stays. */
static const char *set_of(char c, bool is_hex)
{
	if (is_hex && strchr(hex, c))
		return hex;
	if (c >= 'a' && c <= 'z')
		return lower;
	if (c >= 'A' && c <= 'Z')
		return upper;
	return c >= '0' && c <= '9' ? digits : NULL;
}

/* Other characters have a meaning in headers, or separate user and password. */
static bool stays(char c)
{
	return c > ' ' && c <= '~' && !strchr("\",:;\\", c);
}

static int fill(const char *secret, char *out)
{
	size_t at = prefix_of(secret), n = strlen(secret), replaced = 0;
	bool is_hex = strspn(secret + at, hex) == n - at;
	int r = 0;

	for (; at < n && r == 0; at++) {
		const char *set = set_of(secret[at], is_hex);

		if (!set && !stays(secret[at]))
			out[at] = '_';
		if (!set)
			continue;
		r = pick(set, &out[at]);
		replaced++;
	}
	return r == 0 && replaced < PLACEHOLDER_RANDOM_MIN ? -ENODATA : r;
}

int placeholder_make(const char *secret, char **ret)
{
	char *out = strdup(secret);
	int r = out ? fill(secret, out) : -ENOMEM;

	if (r < 0)
		secret_free(out);
	else
		*ret = out;
	return r;
}
