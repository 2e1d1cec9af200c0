#include "cli/admin/ask.h"

#include <errno.h>
#include <string.h>

#include "api/operator.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/remote/admin.h"
#include "image/home.h"
#include "proto/uri.h"
#include "store/store.h"

enum { TARGET_MAX = 2048 };

static int ask_store(const struct home *home, const char *method, const char *target,
	const json_t *body, json_t **ret, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/mayfly.db", home->path);
	_cleanup_(store_closep) struct store *s = NULL;
	int r = path ? store_open(path, &s, e)
		     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	return r < 0 ? r : operator_call(s, method, target, body, ret, e);
}

int ask(const char *method, const char *target, const json_t *body, json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	json_t *answer = NULL;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = admin_call(&home, method, target, body, &answer, e);
	if (r == -ECONNREFUSED)
		r = ask_store(&home, method, target, body, &answer, e);
	home_close(&home);
	if (r == 0 && ret)
		*ret = answer;
	else
		json_decref(answer);
	return r;
}

int ask_one(const char *method, const char *collection, const char *name, const json_t *body,
	struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);

	if (!*name)
		return error_set(e, ERROR_USAGE, EINVAL, "an empty name");
	if (buf_add_str(&target, collection) < 0 || buf_add_u8(&target, '/') < 0 ||
		uri_encode(&target, name, strlen(name)) < 0 || buf_add_u8(&target, 0) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "the name is too long");
	return ask(method, (const char *)buf_head(&target), body, NULL, e);
}

int ask_add_choice(
	json_t *body, const char *name, const char *option, const char *value, struct error *e)
{
	bool yes = value && strcmp(value, "yes") == 0;

	if (!value)
		return 0;
	if (!yes && strcmp(value, "no") != 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--%s is yes or no", option);
	(void)json_object_set_new(body, name, json_boolean(yes)); /* missing shows at once */
	return 0;
}

const char *ask_text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}
