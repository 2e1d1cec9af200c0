#include "daemon/self_signed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "http/tls_issue.h"

enum { LOOK_MS = 6 * 3600 * 1000 };

struct self_signed {
	uv_timer_t timer;
	struct self_signed_options options;
	char *dir, *ca, *cert, *key;
};

static void on_look(uv_timer_t *t)
{
	struct self_signed *s = t->data;
	_cleanup_close_ int dirfd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error e = {0};
	bool renewed = false;

	if (dirfd < 0)
		log_error("cannot open %s: the TLS certificate is not renewed", s->dir);
	else if (tls_issue(dirfd, s->options.domain, time(NULL), &renewed, &e) < 0)
		log_error("the TLS certificate is not renewed: %s", e.message);
	else if (renewed)
		s->options.renewed(s->options.arg);
}

static int make_names(struct self_signed *s)
{
	s->dir = str_printf("%s/tls/%s", s->options.home, s->options.domain);
	s->ca = s->dir ? str_printf("%s/" TLS_CA_FILE, s->dir) : NULL;
	s->cert = s->dir ? str_printf("%s/" TLS_CERT_FILE, s->dir) : NULL;
	s->key = s->dir ? str_printf("%s/" TLS_KEY_FILE, s->dir) : NULL;
	return s->ca && s->cert && s->key ? 0 : -ENOMEM;
}

static int issue(struct self_signed *s, struct error *e)
{
	_cleanup_close_ int dirfd = -1;
	bool ignored;
	int r = file_mkdir_p(s->dir, 0700);

	if (r == 0)
		dirfd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0 || dirfd < 0)
		return error_set_errno(
			e, ERROR_HOST, r < 0 ? -r : errno, "cannot make the directory %s", s->dir);
	return tls_issue(dirfd, s->options.domain, time(NULL), &ignored, e);
}

int self_signed_start(
	const struct self_signed_options *o, struct self_signed **ret, struct error *e)
{
	struct self_signed *s;
	int r = tls_issue_check_domain(o->domain, e);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	*ret = s;
	s->options = *o;
	(void)uv_timer_init(o->loop, &s->timer); /* cannot fail */
	s->timer.data = s;
	if (make_names(s) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = issue(s, e);
	if (r < 0)
		return r;
	(void)uv_timer_start(&s->timer, on_look, LOOK_MS, LOOK_MS); /* cannot fail */
	return 0;
}

void self_signed_stop(struct self_signed *s)
{
	if (s && !uv_is_closing((uv_handle_t *)&s->timer))
		uv_close((uv_handle_t *)&s->timer, NULL);
}

void self_signed_free(struct self_signed *s)
{
	if (!s)
		return;
	free(s->dir);
	free(s->ca);
	free(s->cert);
	free(s->key);
	free(s);
}

const char *self_signed_ca(const struct self_signed *s)
{
	return s->ca;
}

const char *self_signed_cert(const struct self_signed *s)
{
	return s->cert;
}

const char *self_signed_key(const struct self_signed *s)
{
	return s->key;
}
