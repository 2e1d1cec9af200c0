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
#include "daemon/daemon.h"
#include "http/server.h"
#include "http/tls_issue.h"

enum { LOOK_MS = 6 * 3600 * 1000 };

struct self_signed {
	uv_timer_t timer;
	const char *domain; /* borrowed */
	char *dir, *ca, *cert, *key;
};

static void on_look(uv_timer_t *t)
{
	struct daemon *d = t->data;
	_cleanup_close_ int dirfd = open(d->self_signed->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error e = {0};
	bool renewed = false;

	if (dirfd < 0)
		log_error(
			"cannot open %s: the TLS certificate is not renewed", d->self_signed->dir);
	else if (tls_issue(dirfd, d->self_signed->domain, time(NULL), &renewed, &e) < 0)
		log_error("the TLS certificate is not renewed: %s", e.message);
	else if (renewed)
		server_reload(d->server);
}

static int make_names(struct self_signed *s, const struct daemon *d)
{
	s->dir = str_printf("%s/tls/%s", d->fleet.home.path, s->domain);
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
	return tls_issue(dirfd, s->domain, time(NULL), &ignored, e);
}

int self_signed_start(struct daemon *d, struct error *e)
{
	struct self_signed *s;
	int r;

	if (!d->options.tls_self_signed)
		return 0;
	r = tls_issue_check_domain(d->options.tls_self_signed, e);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	d->self_signed = s;
	s->domain = d->options.tls_self_signed;
	(void)uv_timer_init(d->fleet.loop, &s->timer); /* cannot fail */
	s->timer.data = d;
	if (make_names(s, d) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = issue(s, e);
	if (r < 0)
		return r;
	d->options.tls_cert = s->cert;
	d->options.tls_key = s->key;
	(void)uv_timer_start(&s->timer, on_look, LOOK_MS, LOOK_MS); /* cannot fail */
	return 0;
}

void self_signed_stop(struct daemon *d)
{
	if (d->self_signed && !uv_is_closing((uv_handle_t *)&d->self_signed->timer))
		uv_close((uv_handle_t *)&d->self_signed->timer, NULL);
}

void self_signed_free(struct daemon *d)
{
	struct self_signed *s = d->self_signed;

	d->self_signed = NULL;
	if (!s)
		return;
	free(s->dir);
	free(s->ca);
	free(s->cert);
	free(s->key);
	free(s);
}

const char *self_signed_ca(const struct daemon *d)
{
	return d->self_signed ? d->self_signed->ca : NULL;
}
