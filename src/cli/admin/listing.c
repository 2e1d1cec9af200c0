#include "cli/admin/listing.h"

#include <errno.h>

#include "cli/admin/ask.h"
#include "cli/cli.h"
#include "cli/json.h"

int listing_print(const struct listing *l, json_t *list, bool json, struct error *e)
{
	struct table t = {.columns = l->columns};
	json_t *one;
	size_t i;

	if (json)
		return json_print(list, e);
	table_add(&t, l->heading);
	json_array_foreach(list, i, one) l->row(&t, one);
	json_decref(list);
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

int listing_run(const struct listing *l, int argc, char **argv, bool json, struct error *e)
{
	json_t *list = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = ask("GET", l->path, NULL, &list, e);
	return r < 0 ? r : listing_print(l, list, json, e);
}
