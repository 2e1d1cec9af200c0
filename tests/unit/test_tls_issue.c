/* Certificates of our own: made once, kept, renewed; what clients check of them. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "http/tls_issue.h"

#define DAY_S  (24 * 3600L)
#define DOMAIN "mf.localhost"

static char path[] = "/tmp/test-tls-issue.XXXXXX";
static const time_t now = 1800000000;

static X509 *read_cert(int dirfd, const char *name, bool second)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	FILE *f = fdopen(fd, "r");
	X509 *x = PEM_read_X509(f, NULL, NULL, NULL);

	if (second) {
		X509_free(x);
		x = PEM_read_X509(f, NULL, NULL, NULL);
	}
	assert_non_null(x);
	(void)fclose(f); /* was read */
	return x;
}

static bool issue(int dirfd, const char *domain, time_t at)
{
	struct error e = {0};
	bool new = false;

	if (tls_issue(dirfd, domain, at, &new, &e) < 0)
		fail_msg("%s", e.message);
	return new;
}

static unsigned mode_of(int dirfd, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(dirfd, name, &st, 0), 0);
	return st.st_mode & 0777;
}

/* As a client with ca.pem does at that time. */
static int verify(int dirfd, const char *host, time_t at)
{
	X509 *ca = read_cert(dirfd, TLS_CA_FILE, false);
	X509 *leaf = read_cert(dirfd, TLS_CERT_FILE, false);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_VERIFY_PARAM *param = X509_VERIFY_PARAM_new();
	int r;

	assert_int_equal(X509_STORE_add_cert(store, ca), 1);
	X509_VERIFY_PARAM_set_time(param, at);
	X509_VERIFY_PARAM_set_depth(param, 1);
	(void)X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	assert_int_equal(X509_VERIFY_PARAM_set1_host(param, host, 0), 1);
	assert_int_equal(X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER), 1);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
	X509_STORE_CTX_set0_param(ctx, param);
	r = X509_verify_cert(ctx) == 1 ? 0 : X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(leaf);
	X509_free(ca);
	return r;
}

static int set_up(void **state)
{
	int dirfd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	assert_non_null(mkdtemp(path));
	dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dirfd >= 0);
	*state = (void *)(intptr_t)dirfd;
	return 0;
}

static int tear_down(void **state)
{
	(void)close((int)(intptr_t)*state); /* a directory */
	return file_remove_tree(AT_FDCWD, path);
}

static void clients_accept_it(void **state)
{
	int dirfd = (int)(intptr_t)*state;
	X509 *ca, *chained;

	assert_true(issue(dirfd, DOMAIN, now));
	assert_int_equal(verify(dirfd, "api." DOMAIN, now), 0);
	assert_int_equal(verify(dirfd, "49983-i0123456789." DOMAIN, now), 0);
	assert_int_equal(verify(dirfd, DOMAIN, now), 0);
	assert_int_equal(verify(dirfd, "localhost", now), 0);
	assert_int_equal(verify(dirfd, "api.other.localhost", now), X509_V_ERR_HOSTNAME_MISMATCH);
	assert_int_equal(mode_of(dirfd, "ca.key"), 0600);
	assert_int_equal(mode_of(dirfd, TLS_KEY_FILE), 0600);
	ca = read_cert(dirfd, TLS_CA_FILE, false);
	chained = read_cert(dirfd, TLS_CERT_FILE, true);
	assert_int_equal(X509_cmp(ca, chained), 0);
	X509_free(ca);
	X509_free(chained);
}

static void it_is_kept_and_renewed(void **state)
{
	int dirfd = (int)(intptr_t)*state;
	X509 *first, *later;

	assert_true(issue(dirfd, DOMAIN, now));
	assert_false(issue(dirfd, DOMAIN, now + 1));
	assert_false(issue(dirfd, DOMAIN, now + (TLS_LEAF_DAYS - TLS_RENEW_DAYS - 1) * DAY_S));
	first = read_cert(dirfd, TLS_CA_FILE, false);
	assert_true(issue(dirfd, DOMAIN, now + (TLS_LEAF_DAYS - TLS_RENEW_DAYS + 1) * DAY_S));
	later = read_cert(dirfd, TLS_CA_FILE, false);
	assert_int_equal(X509_cmp(first, later), 0); /* clients need not hear of it */
	assert_int_equal(verify(dirfd, "api." DOMAIN, now + (TLS_LEAF_DAYS + 1) * DAY_S), 0);
	X509_free(later);
	assert_true(issue(dirfd, DOMAIN, now + (TLS_CA_DAYS - 300) * DAY_S));
	later = read_cert(dirfd, TLS_CA_FILE, false);
	assert_int_not_equal(X509_cmp(first, later), 0);
	assert_int_equal(verify(dirfd, "api." DOMAIN, now + TLS_CA_DAYS * DAY_S), 0);
	X509_free(first);
	X509_free(later);
}

static void what_is_damaged_is_made_again(void **state)
{
	static const char *const files[] = {TLS_CA_FILE, "ca.key", TLS_CERT_FILE, TLS_KEY_FILE};
	int dirfd = (int)(intptr_t)*state;

	assert_true(issue(dirfd, DOMAIN, now));
	for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
		assert_int_equal(file_write_atomic(dirfd, files[i], "no PEM", 6, 0600), 0);
		assert_true(issue(dirfd, DOMAIN, now));
		assert_int_equal(verify(dirfd, "api." DOMAIN, now), 0);
		assert_int_equal(unlinkat(dirfd, files[i], 0), 0);
		assert_true(issue(dirfd, DOMAIN, now));
		assert_int_equal(verify(dirfd, "api." DOMAIN, now), 0);
	}
	assert_false(issue(dirfd, DOMAIN, now));
}

static void domains(void **state)
{
	static const char *const bad[] = {"", "localhost", "a..b", ".a.b", "a.b.", "A.b", "a b.c",
		"*.a.b", "-a.b", "a.b,DNS:c"};
	int dirfd = (int)(intptr_t)*state;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error e = {0};
		bool new;

		assert_int_equal(tls_issue(dirfd, bad[i], now, &new, &e), -EINVAL);
		assert_int_equal(e.code, ERROR_USAGE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(clients_accept_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_is_kept_and_renewed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_damaged_is_made_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(domains, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
