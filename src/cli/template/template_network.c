#include "cli/template/template_network.h"

#include <stdbool.h>
#include <string.h>

#include "network/direct_network.h"

static int begin(void *opaque, int dirfd, void **ret, int *ret_vmm_fd, struct error *e)
{
	const struct template_network *t = opaque;
	json_t *anything = json_object();
	struct direct_network *n = NULL;
	int r = direct_network_open(&t->floors, anything, &n, ret_vmm_fd, e);

	if (r == 0)
		r = direct_network_start(n, dirfd, t->floors.template, e);
	json_decref(anything);
	if (r < 0)
		direct_network_close(n);
	else
		*ret = n;
	return r;
}

static void end(void *network)
{
	direct_network_close(network);
}

static bool is_off(const char *list)
{
	return list && strcmp(list, "off") == 0;
}

const struct machine_network *template_network_get(struct template_network *n, const char *list)
{
	const struct network_floors *f = &n->floors;

	n->floors.template = list;
	n->machine = (struct machine_network){begin, end, n};
	return (f->all && f->all->mode == NETWORK_OFF) || is_off(f->key) || is_off(list)
		       ? NULL
		       : &n->machine;
}
