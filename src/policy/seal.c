#include "policy/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum {
	KEY_BYTES = 32,
	KEY_TEXT = 2 * KEY_BYTES,
	FILE_MAX = 4096,
	FORM = 1,
	NAME_BYTES = 8, /* of the key, by which a wrong one is recognised */
	NONCE_BYTES = 12,
	TAG_BYTES = 16,
};

/* The bytes of what is sealed; the text follows. */
struct header {
	uint8_t mark[2], form;
	uint8_t key[NAME_BYTES], nonce[NONCE_BYTES], tag[TAG_BYTES];
};

_Static_assert(sizeof(struct header) == SEAL_OVERHEAD, "no padding");

struct sealer {
	char *path;
	bool loaded;
	uint8_t key[KEY_BYTES], name[NAME_BYTES];
};

void secret_free(char *text)
{
	if (text)
		OPENSSL_cleanse(text, strlen(text));
	free(text);
}

void secret_freep(char **text)
{
	secret_free(*text);
}

void secret_wipe(json_t *string)
{
	if (json_is_string(string)) /* jansson's own copy, which it frees as it is */
		OPENSSL_cleanse((char *)json_string_value(string), json_string_length(string));
}

struct sealer *sealer_new(const char *path)
{
	struct sealer *s = calloc(1, sizeof(*s));

	if (s)
		s->path = strdup(path);
	if (s && s->path)
		return s;
	free(s);
	return NULL;
}

void sealer_free(struct sealer *s)
{
	if (!s)
		return;
	free(s->path);
	OPENSSL_cleanse(s, sizeof(*s));
	free(s);
}

/* --- the key's file --- */

static int parse_key(struct sealer *s, const char *text, struct error *e)
{
	size_t n = strcspn(text, "\r\n \t");

	if (n == KEY_TEXT && str_from_hex(text, KEY_BYTES, s->key) &&
		text[n + strspn(text + n, "\r\n \t")] == '\0')
		return 0;
	return error_set(e, ERROR_HOST, EINVAL,
		"the key file of the secrets, %s, must have %d hexadecimal digits: restore it from "
		"a backup",
		s->path, KEY_TEXT);
}

static int check_mode(const char *path, int fd, struct error *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%s", path);
	if (st.st_mode & 077)
		return error_set(e, ERROR_HOST, EPERM,
			"others may read the key of the secrets: chmod 600 %s", path);
	return 0;
}

static int read_key(struct sealer *s, struct error *e)
{
	_cleanup_close_ int fd = open(s->path, O_RDONLY | O_CLOEXEC);
	_cleanup_(secret_freep) char *text = NULL;
	size_t n;
	int r;

	if (fd < 0)
		return -errno;
	r = check_mode(s->path, fd, e);
	if (r == 0)
		r = file_read_fd(fd, FILE_MAX, &text, &n);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "the key of the secrets, %s", s->path);
	return parse_key(s, text, e);
}

static int write_key(const char *path, const char *text)
{
	_cleanup_free_ char *copy = strdup(path), *again = strdup(path);
	_cleanup_close_ int dir = -1;

	if (!copy || !again)
		return -ENOMEM;
	dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -errno : file_write_atomic(dir, basename(again), text, strlen(text), 0600);
}

static int make_key(struct sealer *s, struct error *e)
{
	char text[KEY_TEXT + 2];
	int r;

	if (RAND_bytes(s->key, KEY_BYTES) != 1)
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	str_hex(s->key, KEY_BYTES, text);
	text[KEY_TEXT] = '\n';
	text[KEY_TEXT + 1] = '\0';
	r = write_key(s->path, text);
	OPENSSL_cleanse(text, sizeof(text));
	if (r < 0)
		return error_set_errno(
			e, ERROR_HOST, -r, "cannot make the key of the secrets, %s", s->path);
	return 0;
}

static int load(struct sealer *s, bool may_make, struct error *e)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	int r = s->loaded ? 0 : read_key(s, e);

	if (s->loaded)
		return 0;
	if (r == -ENOENT && may_make)
		r = make_key(s, e);
	if (r == -ENOENT)
		return error_set(e, ERROR_HOST, ENOENT,
			"the key of the secrets, %s, is missing: put it back from a backup, or "
			"remove all secrets",
			s->path);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "the key of the secrets, %s", s->path);
	if (!EVP_Digest(s->key, KEY_BYTES, digest, NULL, EVP_sha256(), NULL))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "SHA-256");
	memcpy(s->name, digest, NAME_BYTES);
	OPENSSL_cleanse(digest, sizeof(digest));
	s->loaded = true;
	return 0;
}

int sealer_derive(struct sealer *s, bool may_make, const char *context,
	uint8_t ret[SEAL_DERIVED_BYTES], struct error *e)
{
	int r = load(s, may_make, e);

	if (r < 0)
		return r;
	if (!HMAC(EVP_sha256(), s->key, KEY_BYTES, (const uint8_t *)context, strlen(context), ret,
		    NULL))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "HMAC");
	return 0;
}

/* --- sealing --- */

static bool encrypt(const struct sealer *s, const char *context, const void *data, int n,
	struct header *h, uint8_t *out)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int done;
	bool good = c && EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, s->key, h->nonce) == 1 &&
		    EVP_EncryptUpdate(
			    c, NULL, &done, (const uint8_t *)context, (int)strlen(context)) == 1 &&
		    EVP_EncryptUpdate(c, out, &done, data, n) == 1 &&
		    EVP_EncryptFinal_ex(c, out + done, &done) == 1 &&
		    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, h->tag) == 1;

	EVP_CIPHER_CTX_free(c); /* wipes */
	return good;
}

int sealer_seal(struct sealer *s, bool may_make, const char *context, const void *data, size_t n,
	uint8_t **ret, struct error *e)
{
	struct header h = {.mark = {'M', 'S'}, .form = FORM};
	uint8_t *out;
	int r = load(s, may_make, e);

	if (r < 0)
		return r;
	if (n > INT32_MAX || RAND_bytes(h.nonce, NONCE_BYTES) != 1)
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	memcpy(h.key, s->name, NAME_BYTES);
	out = malloc(sizeof(h) + n);
	if (!out || !encrypt(s, context, data, (int)n, &h, out + sizeof(h))) {
		free(out);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "cannot seal a secret");
	}
	memcpy(out, &h, sizeof(h));
	*ret = out;
	return 0;
}

static bool decrypt(const struct sealer *s, const char *context, struct header *h,
	const uint8_t *data, int n, char *out)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int done;
	bool good = c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, s->key, h->nonce) == 1 &&
		    EVP_DecryptUpdate(
			    c, NULL, &done, (const uint8_t *)context, (int)strlen(context)) == 1 &&
		    EVP_DecryptUpdate(c, (uint8_t *)out, &done, data, n) == 1 &&
		    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, h->tag) == 1 &&
		    EVP_DecryptFinal_ex(c, (uint8_t *)out + done, &done) == 1;

	EVP_CIPHER_CTX_free(c); /* wipes */
	return good;
}

int sealer_open(struct sealer *s, const char *context, const void *sealed, size_t n, char **ret,
	size_t *ret_n, struct error *e)
{
	struct header h;
	char *out;
	int r = load(s, false, e);

	if (r < 0)
		return r;
	if (n < sizeof(h) || n > INT32_MAX)
		return error_set(e, ERROR_HOST, EBADMSG, "what is sealed is too short");
	memcpy(&h, sealed, sizeof(h));
	if (memcmp(h.mark, "MS", 2) != 0 || h.form != FORM)
		return error_set(e, ERROR_HOST, EBADMSG, "what is sealed has another form");
	if (memcmp(h.key, s->name, NAME_BYTES) != 0)
		return error_set(e, ERROR_HOST, EKEYREJECTED,
			"it was sealed with another key than that in %s: put the file back from a "
			"backup, or set the secret anew",
			s->path);
	n -= sizeof(h);
	out = malloc(n + 1);
	if (!out || !decrypt(s, context, &h, (const uint8_t *)sealed + sizeof(h), (int)n, out)) {
		free(out);
		return error_set(e, ERROR_HOST, EBADMSG, "what is sealed is damaged");
	}
	out[n] = '\0';
	*ret = out;
	*ret_n = n;
	return 0;
}
