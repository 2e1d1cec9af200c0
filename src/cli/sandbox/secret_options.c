#include "cli/sandbox/secret_options.h"

#include <errno.h>

#include "cli/binding_option.h"

static int add(json_t *all, const struct binding_option *b, struct error *e)
{
	if (json_object_get(all, b->name))
		return error_set(e, ERROR_USAGE, EINVAL, "--secret: %.64s is given twice", b->name);
	return json_object_set_new(all, b->name,
		       json_pack("{s:s, s:O}", "secret", b->value, "hosts", b->hosts)) < 0
		       ? error_set(e, ERROR_USAGE, EINVAL, "--secret must be valid UTF-8")
		       : 0;
}

static int add_text(json_t *all, const char *text, struct error *e)
{
	struct binding_option b;
	int r = binding_option_read(text, &b);

	if (r == -EINVAL)
		r = error_set(e, ERROR_USAGE, EINVAL,
			"--secret '%.64s': expected VARIABLE=NAME@HOST[,HOST]..., and not the "
			"secret itself: see mayfly secrets set",
			text);
	else if (r < 0)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	else
		r = add(all, &b, e);
	binding_option_done(&b);
	return r;
}

int secret_options_body(const struct option_list *list, json_t **ret, struct error *e)
{
	json_t *all = list->count ? json_object() : NULL;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < list->count; i++)
		r = add_text(all, list->items[i], e);
	if (r == 0)
		*ret = all;
	else
		json_decref(all);
	return r;
}
