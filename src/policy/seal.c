#include "policy/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
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
	NONCE_BYTES = 12,
	TAG_BYTES = 16,
};

/* The bytes of what is sealed; the text follows. */
struct header {
	uint8_t mark[2], form;
	uint8_t key[SEAL_NAME_BYTES], nonce[NONCE_BYTES], tag[TAG_BYTES];
};

_Static_assert(sizeof(struct header) == SEAL_OVERHEAD, "no padding");

struct sealer {
	char *path;
	bool loaded, expects;
	uint8_t key[KEY_BYTES], name[SEAL_NAME_BYTES], expected[SEAL_NAME_BYTES];
	/* With the key in them. Setting them up anew takes longer than a short text. */
	EVP_CIPHER_CTX *seals, *opens;
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
	EVP_CIPHER_CTX_free(s->seals); /* wipes */
	EVP_CIPHER_CTX_free(s->opens);
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

static int read_key(struct sealer *s, const char *path, struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(secret_freep) char *text = NULL;
	size_t n;
	int r;

	if (fd < 0)
		return -errno;
	r = check_mode(path, fd, e);
	if (r == 0)
		r = file_read_fd(fd, FILE_MAX, &text, &n);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "the key of the secrets, %s", path);
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

static int make_key(struct sealer *s, const char *path, struct error *e)
{
	char text[KEY_TEXT + 2];
	int r;

	if (RAND_bytes(s->key, KEY_BYTES) != 1)
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	str_hex(s->key, KEY_BYTES, text);
	text[KEY_TEXT] = '\n';
	text[KEY_TEXT + 1] = '\0';
	r = write_key(path, text);
	OPENSSL_cleanse(text, sizeof(text));
	if (r < 0)
		return error_set_errno(
			e, ERROR_HOST, -r, "cannot make the key of the secrets, %s", path);
	return 0;
}

static EVP_CIPHER_CTX *prepare(const uint8_t key[KEY_BYTES], bool seals)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();

	if (c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, NULL, seals) == 1)
		return c;
	EVP_CIPHER_CTX_free(c);
	return NULL;
}

/* Derives what belongs to the key. */
static int use_key(struct sealer *s, struct error *e)
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	if (!EVP_Digest(s->key, KEY_BYTES, digest, NULL, EVP_sha256(), NULL))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "SHA-256");
	memcpy(s->name, digest, SEAL_NAME_BYTES);
	OPENSSL_cleanse(digest, sizeof(digest));
	EVP_CIPHER_CTX_free(s->seals);
	EVP_CIPHER_CTX_free(s->opens);
	s->seals = prepare(s->key, true);
	s->opens = prepare(s->key, false);
	if (!s->seals || !s->opens)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "AES-256-GCM");
	return 0;
}

static char *next_path(const struct sealer *s)
{
	return str_printf("%s.new", s->path);
}

static bool is_expected(const struct sealer *s)
{
	return !s->expects || memcmp(s->name, s->expected, SEAL_NAME_BYTES) == 0;
}

static int wrong_key(const struct sealer *s, struct error *e)
{
	return error_set(e, ERROR_HOST, EKEYREJECTED,
		"%s is not the key that the secrets were sealed with: put that file back from a "
		"backup",
		s->path);
}

/* A change of the key came to where everything is sealed with the new one, and the file is not in
 * its place. */
static int finish_change(struct sealer *s, struct error *e)
{
	_cleanup_free_ char *next = next_path(s);
	struct error why = {0};
	int r = next ? read_key(s, next, &why) : -ENOMEM;

	if (r == 0)
		r = use_key(s, e);
	if (r < 0 || !is_expected(s))
		return wrong_key(s, e);
	if (rename(next, s->path) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "putting %s into its place", next);
	return 0;
}

static int load(struct sealer *s, bool may_make, struct error *e)
{
	int r;

	if (s->loaded)
		return 0;
	r = read_key(s, s->path, e);
	if (r == -ENOENT && may_make && !s->expects)
		r = make_key(s, s->path, e);
	if (r == 0)
		r = use_key(s, e);
	if ((r == 0 && !is_expected(s)) || (r == -ENOENT && s->expects)) {
		struct error why = {0};
		int late = finish_change(s, &why);

		if (late < 0 && r == 0)
			return error_set(e, why.code, why.err, "%s", why.message);
		r = late < 0 ? r : 0;
	}
	if (r == -ENOENT)
		return error_set(e, ERROR_HOST, ENOENT,
			"the key of the secrets, %s, is missing: put it back from a backup, or "
			"remove all secrets",
			s->path);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "the key of the secrets, %s", s->path);
	s->loaded = true;
	return 0;
}

void sealer_expect(struct sealer *s, const uint8_t name[SEAL_NAME_BYTES])
{
	memcpy(s->expected, name, SEAL_NAME_BYTES);
	s->expects = true;
	s->loaded = false;
}

int sealer_name(struct sealer *s, bool may_make, uint8_t ret[SEAL_NAME_BYTES], struct error *e)
{
	int r = load(s, may_make, e);

	if (r == 0)
		memcpy(ret, s->name, SEAL_NAME_BYTES);
	return r;
}

/* --- another key --- */

int sealer_next(struct sealer *s, struct sealer **ret, struct error *e)
{
	_cleanup_free_ char *path = next_path(s);
	struct sealer *next = path ? sealer_new(path) : NULL;
	int r = next ? make_key(next, path, e)
		     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0)
		r = use_key(next, e);
	if (r < 0) {
		sealer_free(next);
		return r;
	}
	next->loaded = true;
	*ret = next;
	return 0;
}

/* Makes the new name in the directory durable. */
static int sync_directory(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int dir =
		copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return dir < 0 || fsync(dir) < 0 ? -errno : 0;
}

int sealer_adopt(struct sealer *s, struct sealer *next, struct error *e)
{
	int r = rename(next->path, s->path) < 0 ? -errno : sync_directory(s->path);

	memcpy(s->key, next->key, KEY_BYTES);
	memcpy(s->name, next->name, SEAL_NAME_BYTES);
	memcpy(s->expected, next->name, SEAL_NAME_BYTES);
	EVP_CIPHER_CTX_free(s->seals);
	EVP_CIPHER_CTX_free(s->opens);
	s->seals = TAKE_PTR(next->seals);
	s->opens = TAKE_PTR(next->opens);
	s->loaded = s->expects = true;
	if (r < 0)
		(void)error_set_errno(e, ERROR_HOST, -r,
			"the new key stays in %s; the next start puts it in its place", next->path);
	sealer_free(next);
	return r;
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
	EVP_CIPHER_CTX *c = s->seals;
	int done;

	return EVP_EncryptInit_ex(c, NULL, NULL, NULL, h->nonce) == 1 &&
	       EVP_EncryptUpdate(c, NULL, &done, (const uint8_t *)context, (int)strlen(context)) ==
		       1 &&
	       EVP_EncryptUpdate(c, out, &done, data, n) == 1 &&
	       EVP_EncryptFinal_ex(c, out + done, &done) == 1 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, h->tag) == 1;
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
	memcpy(h.key, s->name, SEAL_NAME_BYTES);
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
	EVP_CIPHER_CTX *c = s->opens;
	int done;

	return EVP_DecryptInit_ex(c, NULL, NULL, NULL, h->nonce) == 1 &&
	       EVP_DecryptUpdate(c, NULL, &done, (const uint8_t *)context, (int)strlen(context)) ==
		       1 &&
	       EVP_DecryptUpdate(c, (uint8_t *)out, &done, data, n) == 1 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, h->tag) == 1 &&
	       EVP_DecryptFinal_ex(c, (uint8_t *)out + done, &done) == 1;
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
	if (memcmp(h.key, s->name, SEAL_NAME_BYTES) != 0)
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
