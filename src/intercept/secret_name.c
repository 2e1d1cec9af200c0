#include "intercept/secret_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rules/fold.h"

enum {
	NAME_MAX_BYTES = 32,
	KEY_MIN = 24,	 /* a word of so many letters and digits counts as a key */
	HEX_MIN = 32,	 /* of one of hexadecimal digits */
	KNOWN_MIN = 12,	 /* of one that begins as keys do */
	CUT_KEY_MIN = 8, /* of one that may go on */
};

/* Folded, in order. */
static const char *const names[] = {"accesskey", "accesstoken", "apikey", "apisecret", "apitoken",
	"appsecret", "auth", "authkey", "authorization", "authtoken", "bearertoken", "cardcvc",
	"clientassertion", "clientsecret", "confirmpassword", "cookie", "credential", "credentials",
	"csrftoken", "currentpassword", "cvc", "cvv", "dbpassword", "encryptionkey", "idtoken",
	"jwt", "masterkey", "mfacode", "newpassword", "oldpassword", "otp", "pass", "passcode",
	"passphrase", "passwd", "password", "passwordconfirmation", "passwordhash", "pin",
	"privatekey", "proxyauthorization", "pwd", "refreshtoken", "rootpassword", "secret",
	"secretaccesskey", "secretkey", "securitycode", "securitytoken", "sessionid", "sessionkey",
	"sessiontoken", "setcookie", "sharedsecret", "signature", "signingkey", "signingsecret",
	"sshkey", "token", "totp", "userpassword", "verificationcode", "webhooksecret", "xapikey",
	"xauthtoken"};

static int compare(const void *key, const void *item)
{
	return strcmp(key, *(const char *const *)item);
}

bool secret_name_is(const char *name, size_t n)
{
	char folded[NAME_MAX_BYTES + 1];

	if (!fold_name(name, n, folded, NAME_MAX_BYTES))
		return false;
	return bsearch(folded, names, ARRAY_SIZE(names), sizeof(names[0]), compare);
}

bool secret_name_is_header(const char *name)
{
	static const char *const last[] = {"auth", "authorization", "cookie", "credential",
		"credentials", "jwt", "key", "password", "secret", "session", "signature", "token"};
	const char *hyphen = strrchr(name, '-');
	char folded[NAME_MAX_BYTES + 1] = "";

	if (secret_name_is(name, strlen(name)))
		return true;
	if (!hyphen || strlen(hyphen) > NAME_MAX_BYTES)
		return false;
	for (size_t i = 1; hyphen[i]; i++)
		folded[i - 1] = (char)tolower((unsigned char)hyphen[i]);
	return bsearch(folded, last, ARRAY_SIZE(last), sizeof(last[0]), compare);
}

bool secret_word_is_known(const char *word, size_t n, bool cut)
{
	static const char *const begins[] = {"sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghs_",
		"github_pat_", "glpat-", "xox", "AKIA", "ASIA", "AIza", "eyJ", "hf_", "npm_",
		"mfly_", "e2b_"};

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (n >= strlen(begins[i]) && memcmp(word, begins[i], strlen(begins[i])) == 0)
			return n >= (cut ? CUT_KEY_MIN : KNOWN_MIN);
	return false;
}

bool secret_word_is_likely(const char *word, size_t n, bool cut)
{
	bool upper = false, lower = false, digit = false, hex = true;

	for (size_t i = 0; i < n; i++) {
		upper |= word[i] >= 'A' && word[i] <= 'Z';
		lower |= word[i] >= 'a' && word[i] <= 'z';
		digit |= word[i] >= '0' && word[i] <= '9';
		hex &= isxdigit((unsigned char)word[i]) != 0;
	}
	if (secret_word_is_known(word, n, cut))
		return true;
	if (cut && digit && (upper || lower))
		return n >= CUT_KEY_MIN;
	return digit && ((hex && n >= HEX_MIN) || (upper && lower && n >= KEY_MIN));
}
