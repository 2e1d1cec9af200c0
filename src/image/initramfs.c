#include "image/initramfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct node {
	const char *name;
	unsigned mode;
	unsigned major, minor;
};

struct writer {
	struct buf *out;
	unsigned ino;
	int r; /* the first error */
};

static void pad(struct writer *w)
{
	static const char zeros[4];
	size_t over = buf_len(w->out) % 4;

	if (w->r == 0 && over)
		w->r = buf_add(w->out, zeros, 4 - over);
}

/* Adds one entry: thirteen fields of eight hexadecimal digits, the name, the content. */
static void add(struct writer *w, const struct node *n, const void *data, size_t len)
{
	size_t name_len = strlen(n->name) + 1;

	if (w->r < 0)
		return;
	w->r = buf_printf(w->out, "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08zx%08x",
		++w->ino, n->mode, 0, 0, S_ISDIR(n->mode) ? 2 : 1, 0, len, 0, 0, n->major, n->minor,
		name_len, 0);
	if (w->r == 0)
		w->r = buf_add(w->out, n->name, name_len);
	pad(w);
	if (w->r == 0 && len)
		w->r = buf_add(w->out, data, len);
	pad(w);
}

static void add_modules(struct writer *w, const struct modules *m)
{
	struct buf list = BUF_INIT(MODULES_MAX * (MODULE_NAME_MAX + 32));
	char path[MODULE_NAME_MAX + 32];

	for (size_t i = 0; i < m->count; i++) {
		(void)snprintf(path, sizeof(path), "lib/modules/%s.ko", m->items[i].name);
		add(w, &(struct node){path, S_IFREG | 0644, 0, 0}, m->items[i].data,
			m->items[i].len);
		if (w->r == 0)
			w->r = buf_printf(&list, "/%s\n", path);
	}
	add(w, &(struct node){"etc/mayfly/modules", S_IFREG | 0644, 0, 0},
		list.data ? buf_head(&list) : NULL, buf_len(&list));
	buf_done(&list);
}

int initramfs_write(const void *agent, size_t agent_len, const struct modules *m, struct buf *out,
	struct error *e)
{
	static const struct node nodes[] = {
		{"dev", S_IFDIR | 0755, 0, 0},
		{"dev/console", S_IFCHR | 0600, 5, 1},
		{"dev/null", S_IFCHR | 0666, 1, 3},
		{"etc", S_IFDIR | 0755, 0, 0},
		{"etc/mayfly", S_IFDIR | 0755, 0, 0},
		{"lib", S_IFDIR | 0755, 0, 0},
		{"lib/modules", S_IFDIR | 0755, 0, 0},
		{"newroot", S_IFDIR | 0755, 0, 0},
		{"proc", S_IFDIR | 0755, 0, 0},
		{"sys", S_IFDIR | 0755, 0, 0},
	};
	struct writer w = {.out = out};

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		add(&w, &nodes[i], NULL, 0);
	add_modules(&w, m);
	add(&w, &(struct node){"init", S_IFREG | 0755, 0, 0}, agent, agent_len);
	add(&w, &(struct node){"TRAILER!!!", 0, 0, 0}, NULL, 0);
	if (w.r < 0)
		return error_set_errno(e, ERROR_LIMIT, -w.r, "cannot write the initramfs");
	return 0;
}
