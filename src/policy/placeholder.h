/* What a guest has in place of a secret: random text of the secret's shape and length, so programs
 * that check the form of a key take it. Prefixes that providers publish ("sk-", "ghp_") stay, and
 * signs; nothing else of the secret is in it. Signs that separate words in headers, and bytes
 * beyond ASCII, become '_'. */
#ifndef POLICY_PLACEHOLDER_H
#define POLICY_PLACEHOLDER_H

enum {
	PLACEHOLDER_RANDOM_MIN = 16, /* letters and digits that must be replaced */
};

/* *ret is malloc'ed. -ENODATA: the secret has too few letters and digits, so that a placeholder
 * could be met by chance; -ENOMEM, -EIO. */
int placeholder_make(const char *secret, char **ret);

#endif
