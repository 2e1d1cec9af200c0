/* Names of images, their blobs, and layers on their way into one tree. */
#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/address.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/words.h"
#include "oci/blobs.h"
#include "oci/challenge.h"
#include "oci/credentials.h"
#include "oci/destination.h"
#include "oci/merge.h"
#include "oci/reference.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SUM "sha256:" HEX

/* --- references --- */

static void print_reference(const struct oci_reference *r, char out[OCI_REFERENCE_MAX])
{
	(void)snprintf(out, OCI_REFERENCE_MAX, "%s/%s%s%s%s%s", r->registry, r->repository,
		*r->tag ? ":" : "", r->tag, *r->digest ? "@" : "", r->digest); /* fits */
}

static void test_references(void **state)
{
	static const struct {
		const char *text, *registry, *whole; /* NULL: refused */
	} cases[] = {
		{"r.example/a", NULL, "r.example/a:latest"},
		{"r.example:5000/a/b_c/d__e/f--g:v1.2", NULL,
			"r.example:5000/a/b_c/d__e/f--g:v1.2"},
		{"localhost/a", NULL, "localhost/a:latest"},
		{"localhost:5000/a@" SUM, NULL, "localhost:5000/a@" SUM},
		{"[::1]:5000/a:T", NULL, "[::1]:5000/a:T"},
		{"127.0.0.1:5000/a:b@" SUM, NULL, "127.0.0.1:5000/a:b@" SUM},
		{"alpine", "r.example", "r.example/alpine:latest"},
		{"team/alpine:3", "r.example", "r.example/team/alpine:3"},
		{"other.example/alpine", "r.example", "other.example/alpine:latest"},
		/* Docker Hub's names, and others that look like them */
		{"docker.io/alpine:3", NULL, "registry-1.docker.io/library/alpine:3"},
		{"docker.io/library/alpine@" SUM, NULL, "registry-1.docker.io/library/alpine@" SUM},
		{"index.docker.io/team/tool", NULL, "registry-1.docker.io/team/tool:latest"},
		{"registry-1.docker.io/alpine", NULL, "registry-1.docker.io/library/alpine:latest"},
		{"alpine", "docker.io", "registry-1.docker.io/library/alpine:latest"},
		{"team/alpine", "docker.io", "registry-1.docker.io/team/alpine:latest"},
		{"docker.io:443/alpine", NULL, "docker.io:443/alpine:latest"},
		{"x.docker.io/alpine", NULL, "x.docker.io/alpine:latest"},
		{"docker.io.example/alpine", NULL, "docker.io.example/alpine:latest"},
		{"docker.io/", NULL, NULL},
		{"docker.io/A", NULL, NULL},
		{"alpine", NULL, NULL},
		{"team/alpine", NULL, NULL},
		{"", "r.example", NULL},
		{"r.example/", NULL, NULL},
		{"r.example/A", NULL, NULL},
		{"r.example/a/", NULL, NULL},
		{"r.example//a", NULL, NULL},
		{"r.example/a..b", NULL, NULL},
		{"r.example/a___b", NULL, NULL},
		{"r.example/-a", NULL, NULL},
		{"r.example/../a", NULL, NULL},
		{"r.example/a:", NULL, NULL},
		{"r.example/a:.b", NULL, NULL},
		{"r.example/a:b/c", NULL, NULL},
		{"r.example/a@sha256:12", NULL, NULL},
		{"r.example/a@sha512:" HEX HEX, NULL, NULL},
		{"r.example:0/a", NULL, NULL},
		{"r.example:65536/a", NULL, NULL},
		{"r.example:x/a", NULL, NULL},
		{"-r.example/a", NULL, NULL},
		{"r..example/a", NULL, NULL},
		{"r.example./a", NULL, NULL},
		{"u@r.example/a", NULL, NULL},
		{"[::1/a", NULL, NULL},
		{"[x]:1/a", NULL, NULL},
		{"r.example/a b", NULL, NULL},
		{"r.example/a?x=1", NULL, NULL},
	};
	struct oci_reference r;
	char text[OCI_REFERENCE_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error e = {0};
		int v = oci_reference_parse(cases[i].text, cases[i].registry, &r, &e);

		if (v == 0)
			print_reference(&r, text);
		if (!cases[i].whole != (v < 0))
			fail_msg("%s: %s", cases[i].text, v < 0 ? e.message : text);
		if (v == 0)
			assert_string_equal(text, cases[i].whole);
		else
			assert_int_equal(e.code, ERROR_USAGE);
	}
}

static void test_long_references(void **state)
{
	struct oci_reference r;
	char text[2000];

	for (size_t n = 0; n < sizeof(text) - 32; n++) {
		(void)snprintf(text, sizeof(text), "r.example/");
		memset(text + 10, 'a', n);
		text[10 + n] = '\0';
		assert_int_equal(
			oci_reference_parse(text, NULL, &r, NULL) == 0, n >= 1 && n <= 255);
		memcpy(text, "docker.io/", 10); /* and "library/" */
		assert_int_equal(
			oci_reference_parse(text, NULL, &r, NULL) == 0, n >= 1 && n <= 255 - 8);
	}
}

/* --- what registries ask for, and where they send us --- */

static void test_challenges(void **state)
{
	static const struct {
		const char *value;
		enum oci_scheme scheme;
		const char *realm, *scope;
	} cases[] = {
		{" Bearer "
		 "realm=\"https://t.example/token\",service=\"s\",scope=\"repository:a:pull\"",
			OCI_SCHEME_BEARER, "https://t.example/token", "repository:a:pull"},
		{"bearer scope=x, REALM=https://t , other=\"a, \\\"b\"", OCI_SCHEME_BEARER,
			"https://t", "x"},
		{"Basic realm=\"x\"", OCI_SCHEME_BASIC, "", ""},
		{"basic", OCI_SCHEME_BASIC, "", ""},
		{"Bearer", OCI_SCHEME_NONE, NULL, NULL},
		{"Bearer service=\"s\"", OCI_SCHEME_NONE, NULL, NULL},
		{"Bearer realm=\"https://t", OCI_SCHEME_NONE, NULL, NULL},
		{"Bearer realm=\"https://t\x01\"", OCI_SCHEME_NONE, NULL, NULL},
		{"Bearer realm=\"a\" scope=\"b\"", OCI_SCHEME_NONE, NULL, NULL},
		{"Digest realm=\"x\"", OCI_SCHEME_NONE, NULL, NULL},
		{"", OCI_SCHEME_NONE, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct oci_challenge c;
		bool good = oci_challenge_parse(cases[i].value, &c);

		if (good != (cases[i].scheme != OCI_SCHEME_NONE))
			fail_msg("%s", cases[i].value);
		if (!good)
			continue;
		assert_int_equal(c.scheme, cases[i].scheme);
		assert_string_equal(c.realm, cases[i].realm);
		assert_string_equal(c.scope, cases[i].scope);
	}
}

static void test_tokens(void **state)
{
	static const struct {
		const char *answer, *token; /* NULL: refused */
	} cases[] = {{"{\"token\":\"a.b-c_d\",\"expires_in\":60}", "a.b-c_d"},
		{"{\"access_token\":\"x\"}", "x"}, {"{\"token\":\"a\\r\\nHost: b\"}", NULL},
		{"{\"token\":\"a b\"}", NULL}, {"{\"token\":\"\"}", NULL}, {"{\"token\":1}", NULL},
		{"{}", NULL}, {"[]", NULL}, {"", NULL}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *token = NULL;
		int r = oci_token_parse(cases[i].answer, strlen(cases[i].answer), &token, NULL);

		assert_int_equal(r < 0, !cases[i].token);
		if (r == 0)
			assert_string_equal(token, cases[i].token);
		free(token);
	}
}

static void test_credentials(void **state)
{
	static const char config[] =
		"{\"auths\":{\"r.example\":{\"auth\":\"dXNlcjpwYXNz\"},"
		"\"https://s.example/v1/\":{\"username\":\"a\",\"password\":\"b:c\"},"
		"\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnB3\"},"
		"\"bad.example\":{\"auth\":\"AAAA\"},\"lines.example\":{\"auth\":\"YQo6Yg==\"}},"
		"\"credHelpers\":{\"h.example\":\"pass\"}}";
	static const struct {
		const char *registry, *text;
		bool helper;
	} cases[] = {{"r.example", "user:pass", false}, {"s.example", "a:b:c", false},
		{"r.example:5000", "", false}, {"bad.example", "", false},
		{"lines.example", "", false}, {"h.example", "", true}, {"r.exampl", "", false},
		{"registry-1.docker.io", "hub:pw", false}, {"index.docker.io.", "", false}};
	struct oci_credentials c;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		oci_credentials_of_docker(config, strlen(config), cases[i].registry, &c);
		assert_string_equal(c.text, cases[i].text);
		assert_int_equal(c.helper, cases[i].helper);
	}
	assert_int_equal(oci_credentials_parse("u:p", &c, NULL), 0);
	assert_string_equal(c.text, "u:p");
	oci_credentials_done(&c);
	assert_string_equal(c.text, "");
	assert_true(oci_credentials_parse("nobody", &c, NULL) < 0);
	assert_true(oci_credentials_parse("u:p\r\nHost: x", &c, NULL) < 0);
	assert_true(oci_credentials_parse("@/nothing", &c, NULL) < 0);
}

static enum oci_zone zone(const char *address)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, address, &four.sin_addr) == 1)
		return oci_zone_of((const struct sockaddr *)&four);
	assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
	return oci_zone_of((const struct sockaddr *)&six);
}

static bool reaches(const struct oci_reach *r, const char *address)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, address, &four.sin_addr) == 1)
		return oci_reach_allows(r, (const struct sockaddr *)&four);
	assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
	return oci_reach_allows(r, (const struct sockaddr *)&six);
}

static void test_reach(void **state)
{
	const struct oci_reach anywhere = {.public_only = false}, public = {.public_only = true};
	struct oci_reach some = {.public_only = true, .count = 2};
	static const char *const special[] = {"10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1",
		"169.254.169.254", "127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "fd00::1", "fe80::1",
		"::ffff:10.1.2.3"};

	assert_int_equal(net_parse("10.1.0.0/16", &some.nets[0]), 0);
	assert_int_equal(net_parse("127.0.0.0/8", &some.nets[1]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
		assert_true(reaches(&anywhere, special[i]));
		assert_false(reaches(&public, special[i]));
		assert_int_equal(reaches(&some, special[i]), i == 0);
	}
	assert_true(reaches(&public, "8.8.8.8"));
	assert_true(reaches(&some, "8.8.8.8"));
	assert_false(reaches(&some, "10.2.0.1"));
}

static void test_zones(void **state)
{
	static const struct {
		const char *address;
		enum oci_zone zone;
	} cases[] = {{"1.2.3.4", OCI_ZONE_PUBLIC}, {"127.0.0.1", OCI_ZONE_LOOPBACK},
		{"127.9.9.9", OCI_ZONE_LOOPBACK}, {"10.255.1.1", OCI_ZONE_PRIVATE},
		{"192.168.255.254", OCI_ZONE_PRIVATE}, {"169.254.169.254", OCI_ZONE_CLOSED},
		{"169.254.1.1", OCI_ZONE_CLOSED}, {"0.0.0.0", OCI_ZONE_CLOSED},
		{"224.0.0.1", OCI_ZONE_CLOSED}, {"::1", OCI_ZONE_LOOPBACK},
		{"::ffff:127.0.0.1", OCI_ZONE_LOOPBACK}, {"::ffff:10.255.1.1", OCI_ZONE_PRIVATE},
		{"::ffff:1.2.3.4", OCI_ZONE_PUBLIC}, {"fd00::1", OCI_ZONE_PRIVATE},
		{"fe80::1", OCI_ZONE_CLOSED}, {"2606:4700::1", OCI_ZONE_PUBLIC},
		{"64:ff9b::7f00:1", OCI_ZONE_CLOSED}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (zone(cases[i].address) != cases[i].zone)
			fail_msg("%s", cases[i].address);
	assert_true(oci_zone_allowed(OCI_ZONE_PUBLIC, OCI_ZONE_PUBLIC));
	assert_true(oci_zone_allowed(OCI_ZONE_LOOPBACK, OCI_ZONE_PUBLIC));
	assert_true(oci_zone_allowed(OCI_ZONE_LOOPBACK, OCI_ZONE_LOOPBACK));
	assert_false(oci_zone_allowed(OCI_ZONE_PUBLIC, OCI_ZONE_PRIVATE));
	assert_false(oci_zone_allowed(OCI_ZONE_PUBLIC, OCI_ZONE_LOOPBACK));
	assert_false(oci_zone_allowed(OCI_ZONE_LOOPBACK, OCI_ZONE_PRIVATE));
	assert_false(oci_zone_allowed(OCI_ZONE_CLOSED, OCI_ZONE_CLOSED));
}

static void test_redirects(void **state)
{
	static const struct {
		const char *from, *to;
		bool allowed, same;
	} cases[] = {
		{"https://a.example/x", "https://a.example/y", true, true},
		{"https://a.example/x", "https://a.example:443/y", true, true},
		{"https://a.example/x", "https://A.example/y", true, true},
		{"https://a.example/x", "https://a.example:444/y", true, false},
		{"https://a.example/x", "https://b.example/y", true, false},
		{"https://a.example/x", "http://a.example/y", false, false},
		{"http://localhost:5000/x", "https://a.example/y", true, false},
		{"http://localhost:5000/x", "http://localhost:5000/y", true, true},
		{"http://localhost:5000/x", "http://localhost:5001/y", true, false},
		{"https://a.example/x", "https://u:p@a.example/y", false, false},
		{"https://a.example/x", "file:///etc/passwd", false, false},
		{"https://a.example/x", "ftp://a.example/y", false, false},
		{"https://a.example/x", "/relative", false, false},
		{"https://a.example/x", "", false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool same, allowed = oci_redirect_allowed(cases[i].from, cases[i].to, &same);

		if (allowed != cases[i].allowed || same != cases[i].same)
			fail_msg("%s to %s: %d %d", cases[i].from, cases[i].to, allowed, same);
	}
	assert_true(address_host_is_loopback("localhost:5000"));
	assert_true(address_host_is_loopback("LOCALHOST:8080/x:y"));
	assert_true(address_host_is_loopback("127.0.0.1"));
	assert_true(address_host_is_loopback("[::1]:80"));
	assert_false(address_host_is_loopback("127.0.0.1.example"));
	assert_false(address_host_is_loopback("localhost.example:1"));
	assert_false(address_host_is_loopback("1.2.3.4"));
}

/* --- the store of blobs --- */

static char place[64];

static int open_store(struct oci_blobs *b)
{
	int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = oci_blobs_open(fd, b, NULL);

	(void)close(fd); /* a directory */
	return r;
}

/* Stores a text; used: when it was used last, in seconds. */
static void put_blob(
	const struct oci_blobs *b, const char *text, time_t used, char digest[OCI_DIGEST_MAX])
{
	const struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
	struct oci_blob_writer w;
	int fd;

	assert_int_equal(oci_blob_begin(b, &w, NULL), 0);
	assert_int_equal(oci_blob_add(&w, text, strlen(text), NULL), 0);
	fd = oci_blob_end(&w, NULL, digest, NULL);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), -1); /* for reading only */
	assert_int_equal(close(fd), 0);
	oci_blob_abort(&w);
	assert_int_equal(utimensat(b->fd, oci_digest_hex(digest), times, 0), 0);
}

static bool has_blob(const struct oci_blobs *b, const char *digest)
{
	int fd = -1, r = oci_blobs_find(b, digest, &fd);

	if (r == 0)
		assert_int_equal(close(fd), 0);
	return r == 0;
}

static unsigned count_files(const struct oci_blobs *b)
{
	DIR *d = file_open_dir(b->fd, ".");
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));)
		n += strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
	assert_int_equal(closedir(d), 0);
	return n;
}

static int make_place(void **state)
{
	(void)snprintf(place, sizeof(place), "/tmp/test-oci-XXXXXX");
	return mkdtemp(place) ? 0 : -1;
}

static int remove_place(void **state)
{
	return file_remove_tree(AT_FDCWD, place);
}

static void test_blobs(void **state)
{
	struct oci_blobs b = OCI_BLOBS_INIT;
	struct oci_blob_writer w;
	char digest[OCI_DIGEST_MAX], other[OCI_DIGEST_MAX];
	struct error e = {0};

	assert_int_equal(open_store(&b), 0);
	put_blob(&b, "text", 1, digest);
	put_blob(&b, "text", 1, other); /* the same one */
	assert_string_equal(digest, other);
	assert_true(has_blob(&b, digest));
	assert_false(has_blob(&b, SUM));
	assert_int_equal(oci_blob_begin(&b, &w, NULL), 0);
	assert_int_equal(oci_blob_add(&w, "lie", 3, NULL), 0);
	assert_int_equal(oci_blob_end(&w, SUM, other, &e), -EBADMSG);
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
	oci_blob_abort(&w);
	assert_int_equal(count_files(&b), 1);
	oci_blobs_close(&b);
}

static void test_damaged_blob(void **state)
{
	struct oci_blobs b = OCI_BLOBS_INIT;
	char digest[OCI_DIGEST_MAX];
	int fd;

	assert_int_equal(open_store(&b), 0);
	put_blob(&b, "text", 1, digest);
	assert_int_equal(fchmodat(b.fd, oci_digest_hex(digest), 0600, 0), 0);
	fd = openat(b.fd, oci_digest_hex(digest), O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "T", 1, 0), 1);
	assert_int_equal(close(fd), 0);
	assert_false(has_blob(&b, digest));
	assert_int_equal(count_files(&b), 0);
	oci_blobs_close(&b);
}

/* A writer that was killed leaves a file without a lock; one that works keeps its. */
static void test_leftover_blobs(void **state)
{
	struct oci_blobs b = OCI_BLOBS_INIT, again = OCI_BLOBS_INIT;
	struct oci_blob_writer w;
	char digest[OCI_DIGEST_MAX];
	int fd;

	assert_int_equal(open_store(&b), 0);
	assert_int_equal(oci_blob_begin(&b, &w, NULL), 0);
	fd = openat(b.fd, ".tmp-dead", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(close(fd), 0);
	assert_int_equal(open_store(&again), 0);
	assert_int_equal(count_files(&b), 1);
	fd = oci_blob_end(&w, NULL, digest, NULL);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	oci_blob_abort(&w);
	oci_blobs_close(&again);
	oci_blobs_close(&b);
}

static void test_trimmed_blobs(void **state)
{
	static const char *const texts[] = {"oldest", "older", "newer", "newest"};
	char digests[4][OCI_DIGEST_MAX];
	struct oci_blobs b = OCI_BLOBS_INIT;
	struct stat st;

	assert_int_equal(open_store(&b), 0);
	for (unsigned i = 0; i < 4; i++)
		put_blob(&b, texts[i], 1000 + i, digests[i]);
	assert_int_equal(fstatat(b.fd, oci_digest_hex(digests[0]), &st, 0), 0);
	oci_blobs_trim(&b, OCI_BLOBS_BYTES_MAX);
	assert_int_equal(count_files(&b), 4);
	if (st.st_blocks == 0)
		skip();			       /* a file system that keeps small files elsewhere */
	assert_true(has_blob(&b, digests[0])); /* now it was used last */
	oci_blobs_trim(&b, 2 * (uint64_t)st.st_blocks * 512);
	assert_int_equal(count_files(&b), 2);
	assert_true(has_blob(&b, digests[0]) && has_blob(&b, digests[3]));
	oci_blobs_close(&b);
}

/* --- commands --- */

static void test_words(void **state)
{
	static const char *const arguments[] = {
		"plain", "", "it's", "a b", "$HOME", "'", "\\", "x\ny", "|"};
	static const char *const refused[] = {
		"a | b", "echo $X", "'open", "a\\", "a; b", "\"a\"", "a > b"};
	const char *words[16];
	struct buf line = BUF_INIT(1024);
	char text[64];

	for (size_t i = 0; i < 9; i++) {
		if (i)
			assert_int_equal(buf_add_str(&line, " "), 0);
		assert_int_equal(words_quote(&line, arguments[i]), 0);
	}
	assert_int_equal(buf_add_u8(&line, 0), 0);
	assert_int_equal(words_split((char *)line.data + line.start, words, 16), 9);
	for (size_t i = 0; i < 9; i++)
		assert_string_equal(words[i], arguments[i]);
	buf_done(&line);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		(void)snprintf(text, sizeof(text), "%s", refused[i]);
		assert_int_equal(words_split(text, words, 16), -EINVAL);
	}
	(void)snprintf(text, sizeof(text), "  a\tb  c\\ d ");
	assert_int_equal(words_split(text, words, 2), -E2BIG);
	(void)snprintf(text, sizeof(text), "  a\tb  c\\ d ");
	assert_int_equal(words_split(text, words, 3), 3);
	assert_string_equal(words[2], "c d");
}

/* --- layers --- */

/* What a tree is written to: a line for each entry. */
struct listing {
	struct tree_sink sink;
	struct buf text;
};

static int list_add(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct listing *l = (struct listing *)(void *)s;

	if (t->hardlink)
		return buf_printf(&l->text, "%s=%s ", t->path, t->hardlink);
	return buf_printf(&l->text, "%s%s%s%s:%u%s ", t->path, S_ISDIR(t->mode) ? "/" : "",
		t->symlink ? ">" : "", t->symlink ? t->symlink : "", t->uid,
		t->xattr_count ? t->xattrs[0].name : "");
}

/* An entry of a test: a path that ends in "/" is a directory, "a>b" a symbolic link, "a=b" a hard
 * link, "a!" a device. uid: the number of its layer. */
static int add(struct tree_sink *to, const char *text, uint32_t uid, struct error *e)
{
	static const struct tree_xattr xattrs[] = {{"trusted.x", "1", 1}, {"user.x", "1", 1}};
	char name[256], path[TREE_PATH_MAX], target[TREE_PATH_MAX];
	size_t n = strcspn(text, ">=!");
	struct tree_entry t = {.path = path, .mode = S_IFREG | 0644, .uid = uid, .size = 1};

	(void)snprintf(name, sizeof(name), "%.*s", (int)n, text);
	assert_true(tree_clean_path(name, path));
	if (n > 0 && text[n - 1] == '/')
		t.mode = S_IFDIR | 0755;
	if (text[n] == '>') {
		t.mode = S_IFLNK | 0777;
		t.symlink = text + n + 1;
	} else if (text[n] == '=') {
		assert_true(tree_clean_path(text + n + 1, target));
		t.hardlink = target;
	} else if (text[n] == '!') {
		t.mode = S_IFCHR | 0666;
		t.rdev = makedev(1, 3);
	}
	if (strstr(text, "xattr")) {
		t.xattrs = xattrs;
		t.xattr_count = 2;
	}
	return to->ops->add(to, &t, NULL, e);
}

/* Layers are separated by "|", their entries by blanks. */
static int each(struct oci_merge *m, const char *layers, struct listing *replay, struct error *e)
{
	_cleanup_free_ char *copy = strdup(layers);
	struct tree_sink *to = NULL;
	uint32_t layer = 0;
	int r = 0;

	for (char *p = copy, *end; p && r == 0; p = end) {
		char *save = NULL;

		end = strchr(p, '|');
		if (end)
			*end++ = '\0';
		if (replay)
			to = oci_merge_replay(m, layer, &replay->sink);
		else
			r = oci_merge_next(m, &to, e);
		layer++;
		for (char *w = strtok_r(p, " ", &save); w && r == 0; w = strtok_r(NULL, " ", &save))
			r = add(to, w, layer, e);
	}
	return r;
}

static int merge(const struct oci_merge_limits *limits, const char *layers, char *out, size_t size,
	struct error *e)
{
	static const struct tree_sink_ops ops = {.add = list_add};
	struct listing l = {{&ops}, BUF_INIT(1 << 16)};
	struct oci_merge *m = oci_merge_new(limits);
	int r;

	assert_non_null(m);
	out[0] = '\0';
	r = each(m, layers, NULL, e);
	if (r == 0)
		r = oci_merge_write_directories(m, &l.sink, e);
	if (r == 0)
		r = each(m, layers, &l, e);
	if (r == 0)
		r = oci_merge_finish(m, e);
	if (r == 0)
		(void)snprintf(out, size, "%.*s", (int)buf_len(&l.text), buf_head(&l.text));
	buf_done(&l.text);
	oci_merge_free(m);
	return r;
}

static void test_merge(void **state)
{
	static const struct {
		const char *layers, *tree;
	} cases[] = {
		{"", "/:0 "},
		{"./ a", "/:1 a:1 "},
		{"a|a", "/:0 a:2 "},
		{"d/ d/a|d/", "/:0 d/:2 d/a:1 "},
		{"d/e/f", "/:0 d/:0 d/e/:0 d/e/f:1 "},
		/* replaced by another kind */
		{"d/ d/a|d", "/:0 d:2 "},
		{"a|a/ a/b", "/:0 a/:2 a/b:2 "},
		{"l>x|l/ l/a", "/:0 l/:2 l/a:2 "},
		/* whiteouts spare their own layer, wherever they stand */
		{"a b|.wh.a", "/:0 b:1 "},
		{"d/ d/a d/e/ d/e/f|.wh.d", "/:0 "},
		{"a|a .wh.a", "/:0 a:2 "},
		{"a|.wh.a a", "/:0 a:2 "},
		{"d/ d/a|d/b .wh.d", "/:0 d/:1 d/b:2 "},
		{"d/ d/a d/b|d/c d/.wh..wh..opq", "/:0 d/:1 d/c:2 "},
		{"d/ d/a|d/.wh..wh..opq d/c", "/:0 d/:1 d/c:2 "},
		{"d/ d/e/ d/e/f d/e/g|d/e/h d/.wh..wh..opq|d/i", "/:0 d/:1 d/e/:1 d/e/h:2 d/i:3 "},
		{"a|.wh.a|a", "/:0 a:3 "},
		{"a b|.wh..wh..opq c", "/:0 c:2 "},
		{".wh.nothing no/.wh.thing no/.wh..wh..opq a", "/:0 a:1 "},
		{".wh..wh.plnk .wh..wh.aufs a", "/:0 a:1 "},
		/* links within layers and across */
		{"a b=a", "/:0 b:1 a=b "},
		{"a|b=a", "/:0 b:1 a=b "},
		{"a|b=a|.wh.a", "/:0 b:1 "},
		{"a b=a|a", "/:0 b:1 a:2 "},
		{"a|a=a", "/:0 a:1 "},
		{"d/ d/f|d=d/f", "/:0 d:1 "},
		{"l>x m=l", "/:0 m>x:1 l=m "},
		/* paths through links stay inside */
		{"u/ u/lib/ lib>u/lib|lib/x", "/:0 u/:1 u/lib/:1 lib>u/lib:1 u/lib/x:2 "},
		{"u/ l>/u|l/x", "/:0 u/:1 l>/u:1 u/x:2 "},
		{"o>../../.. o/x", "/:0 o>../../..:1 x:1 "},
		{"d/ d/o>../../e d/o/x", "/:0 e/:0 d/:1 d/o>../../e:1 e/x:1 "},
		{"gone>no/where gone/x", "/:0 no/:0 no/where/:0 gone>no/where:1 no/where/x:1 "},
		{"u/ u/a l>u|l/.wh.a", "/:0 u/:1 l>u:1 "},
		/* what is left out, and what stays */
		{"null! a", "/:0 a:1 "},
		{"A a aa Aa", "/:0 A:1 a:1 aa:1 Aa:1 "},
		{"xattr xattrs/", "/:0 xattrs/:1user.x xattr:1user.x "},
	};
	char tree[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error e = {0};

		if (merge(&oci_merge_limits, cases[i].layers, tree, sizeof(tree), &e) < 0)
			fail_msg("%s: %s", cases[i].layers, e.message);
		if (strcmp(tree, cases[i].tree) != 0)
			fail_msg("%s:\n%s, not\n%s", cases[i].layers, tree, cases[i].tree);
	}
}

static void test_merge_refuses(void **state)
{
	static const struct {
		const char *layers, *says;
	} cases[] = {
		{"a a/b", "/a/b leads through something that is not a directory"},
		{"l>l l/a", "/l/a leads through too many links"},
		{"l>m m>l l/a", "too many links"},
		{"a=b", "/a is a link to something that is not there"},
		{"d/ a=d", "/a is a link to a directory"},
		{"./=a a", "/ would take"},
		{".wh.", "removes its own directory"},
		{"d/.wh..", "removes its own directory"},
		{"d/.wh...", "removes its own directory"},
		{"a|b c|b/d", "layer 3: the entry /b/d leads"},
	};
	char tree[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error e = {0};

		assert_true(merge(&oci_merge_limits, cases[i].layers, tree, sizeof(tree), &e) < 0);
		if (e.code != ERROR_BAD_IMAGE || !strstr(e.message, cases[i].says))
			fail_msg("%s: %s", cases[i].layers, e.message);
	}
}

static void test_merge_limits(void **state)
{
	static const struct {
		struct oci_merge_limits less;
		const char *fits, *too_much;
	} cases[] = {
		{{.entries = 3}, "a b|.wh.a", "a b|.wh.a c"},
		{{.bytes = 3}, "a b|a", "a b|a b"},
		{{.nodes = 3}, "a b|a", "a b c"},
		{{.nodes = 3}, "a/b", "a/b/c/d"},
		{{.steps = 4}, "a/b/c|a/b/c", "a/b/c|a/b/c|a/b/c"},
		{{.steps = 4}, "l>/./.|l/x", "l>/./././.|l/x"},
		{{.steps = 4}, "a/ l>a/..|l/x", "a/ l>a/../a/..|l/x"},
		{{.memory = 1000}, "a", "a b c d e f g h i j k l"},
	};
	char tree[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct oci_merge_limits l = oci_merge_limits;
		struct error e = {0};

		l.entries = cases[i].less.entries ? cases[i].less.entries : l.entries;
		l.bytes = cases[i].less.bytes ? cases[i].less.bytes : l.bytes;
		l.nodes = cases[i].less.nodes ? cases[i].less.nodes : l.nodes;
		l.steps = cases[i].less.steps ? cases[i].less.steps : l.steps;
		l.memory = cases[i].less.memory ? cases[i].less.memory : l.memory;
		if (merge(&l, cases[i].fits, tree, sizeof(tree), &e) < 0)
			fail_msg("%zu: %s", i, e.message);
		assert_true(merge(&l, cases[i].too_much, tree, sizeof(tree), &e) < 0);
		assert_int_equal(e.code, ERROR_LIMIT);
	}
}

/* Paths that grow through links are bounded as others are. */
static void test_merge_depth(void **state)
{
	struct oci_merge *m = oci_merge_new(&oci_merge_limits);
	struct tree_sink *to;
	char path[TREE_PATH_MAX] = "l";
	struct tree_entry t = {.path = path, .mode = S_IFDIR | 0755};
	struct error e = {0};
	int r = 0;

	assert_int_equal(oci_merge_next(m, &to, &e), 0);
	for (int i = 0; i < 1500; i++)
		(void)strcat(path, "/d");
	path[0] = 'd';
	assert_int_equal(to->ops->add(to, &t, NULL, &e), 0);
	t = (struct tree_entry){.path = "l", .mode = S_IFLNK | 0777, .symlink = path};
	assert_int_equal(to->ops->add(to, &t, NULL, &e), 0);
	path[0] = 'l';
	t = (struct tree_entry){.path = path, .mode = S_IFDIR | 0755};
	r = to->ops->add(to, &t, NULL, &e);
	assert_true(r < 0);
	assert_non_null(strstr(e.message, "too long"));
	oci_merge_free(m);
}

/* A layer that is not the same when it is read again. */
static void test_merge_changed(void **state)
{
	static const char *const again[] = {"a/", "a=b", "", "a b"};
	static const struct tree_sink_ops ops = {.add = list_add};

	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		struct listing l = {{&ops}, BUF_INIT(1 << 16)};
		struct oci_merge *m = oci_merge_new(&oci_merge_limits);
		struct error e = {0};
		int r = each(m, "a", NULL, &e);

		assert_int_equal(r, 0);
		r = each(m, again[i], &l, &e);
		if (r == 0)
			r = oci_merge_finish(m, &e);
		assert_true(r < 0);
		assert_non_null(strstr(e.message, "changed"));
		buf_done(&l.text);
		oci_merge_free(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_long_references),
		cmocka_unit_test(test_challenges),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_credentials),
		cmocka_unit_test(test_reach),
		cmocka_unit_test(test_zones),
		cmocka_unit_test(test_redirects),
		cmocka_unit_test_setup_teardown(test_blobs, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_damaged_blob, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_leftover_blobs, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_trimmed_blobs, make_place, remove_place),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_merge_refuses),
		cmocka_unit_test(test_merge_limits),
		cmocka_unit_test(test_merge_depth),
		cmocka_unit_test(test_merge_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
