/* Makes the text that a guest has in place of a secret. It is random, but has the secret's shape
 * and length, so that programs which check the form of a key accept it. Published prefixes of
 * providers ("sk-", "ghp_") and punctuation stay; all else is random. Punctuation that separates
 * words in headers, and bytes beyond ASCII, become '_'. */
#ifndef POLICY_PLACEHOLDER_H
#define POLICY_PLACEHOLDER_H

enum {
	PLACEHOLDER_RANDOM_MIN = 16, /* letters and digits that are random */
};

/* *ret is malloc'ed. Returns 0, -ENOMEM, -EIO, or -ENODATA if the secret has too few letters and
 * digits, so that other text could equal a placeholder by chance. */
int placeholder_make(const char *secret, char **ret);

#endif
