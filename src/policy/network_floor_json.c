#include "policy/network_floor_json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static json_t *private_json(const struct network_floor *f)
{
	json_t *list = json_array();
	char text[NETWORK_NET_BYTES];

	for (unsigned i = 0; list && i < f->private_count; i++)
		if (json_array_append_new(
			    list, json_string(network_net_text(&f->private[i], text))) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

json_t *network_floor_to_json(const struct network_floor *f)
{
	return json_pack("{s:s, s:i, s:o, s:O, s:O, s:O, s:O*, s:O*, s:s*}", "mode",
		network_mode_word(f->mode), "flows", (int)f->flows.sandbox, "private",
		private_json(f), "rules", f->rules, "hosts", f->hosts, "dns", f->dns, "proxy",
		f->proxy, "policy", f->policy, "roots", f->roots);
}

static int malformed(struct error *e, const char *name)
{
	return error_set(e, ERROR_USAGE, EINVAL,
		"the operator's network: '%s' is missing or malformed", name);
}

static int take_array(const json_t *object, const char *name, json_t **slot, struct error *e)
{
	json_t *list = json_object_get(object, name);

	if (!json_is_array(list))
		return malformed(e, name);
	json_decref(*slot);
	*slot = json_incref(list);
	return 0;
}

static int take_object(const json_t *object, const char *name, json_t **slot, struct error *e)
{
	json_t *value = json_object_get(object, name);

	if (value && !json_is_object(value))
		return malformed(e, name);
	*slot = json_incref(value);
	return 0;
}

static int take_private(const json_t *object, struct network_floor *f, struct error *e)
{
	const json_t *list = json_object_get(object, "private"), *v;
	size_t i;
	int r = json_is_array(list) ? 0 : malformed(e, "private");

	json_array_foreach(list, i, v)
	{
		if (r == 0)
			r = json_is_string(v)
				    ? network_floor_allow_private(f, json_string_value(v), e)
				    : malformed(e, "private");
	}
	return r;
}

static int take_roots(const json_t *object, struct network_floor *f, struct error *e)
{
	const json_t *roots = json_object_get(object, "roots");

	if (!roots)
		return 0;
	if (!json_is_string(roots))
		return malformed(e, "roots");
	f->roots = strdup(json_string_value(roots));
	return f->roots ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int take_flows(const json_t *object, struct network_floor *f, struct error *e)
{
	const json_t *v = json_object_get(object, "flows");
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || n > NETWORK_FLOWS_MAX)
		return malformed(e, "flows");
	f->flows.sandbox = (unsigned)n;
	return 0;
}

static int take_all(const json_t *object, struct network_floor *f, struct error *e)
{
	const char *mode = json_string_value(json_object_get(object, "mode"));
	int r = mode ? network_floor_set_mode(f, mode, e) : malformed(e, "mode");

	if (r == 0)
		r = take_array(object, "rules", &f->rules, e);
	if (r == 0)
		r = take_array(object, "hosts", &f->hosts, e);
	if (r == 0)
		r = take_array(object, "dns", &f->dns, e);
	if (r == 0)
		r = take_object(object, "proxy", &f->proxy, e);
	if (r == 0)
		r = take_object(object, "policy", &f->policy, e);
	if (r == 0)
		r = take_private(object, f, e);
	if (r == 0)
		r = take_flows(object, f, e);
	return r == 0 ? take_roots(object, f, e) : r;
}

int network_floor_from_json(const json_t *object, struct network_floor **ret, struct error *e)
{
	struct network_floor *f = network_floor_new();
	int r = f ? take_all(object, f, e) : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r < 0)
		network_floor_free(f);
	else
		*ret = f;
	return r;
}
