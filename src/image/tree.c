#include "image/tree.h"

#include <string.h>
#include <sys/stat.h>

bool tree_clean_path(const char *path, char out[TREE_PATH_MAX])
{
	size_t at = 0;

	for (;;) {
		size_t n;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0)
			break;
		if (n == 2 && path[0] == '.' && path[1] == '.')
			return false;
		if (!(n == 1 && path[0] == '.')) {
			if (n > 255 || at + n + 2 > TREE_PATH_MAX)
				return false;
			if (at > 0)
				out[at++] = '/';
			memcpy(out + at, path, n);
			at += n;
		}
		path += n;
	}
	out[at] = '\0';
	return true;
}

struct memory {
	const char *p;
	size_t left;
};

static ssize_t read_memory(void *opaque, void *buf, size_t n)
{
	struct memory *m = opaque;

	if (n > m->left)
		n = m->left;
	memcpy(buf, m->p, n);
	m->p += n;
	m->left -= n;
	return (ssize_t)n;
}

int tree_put(struct tree_sink *s, const char *path, const void *data, size_t len, uint32_t mode,
	uint32_t uid, uint32_t gid, int64_t mtime, struct error *e)
{
	struct memory m = {data, len};
	struct tree_data d = {read_memory, &m};
	struct tree_entry entry = {.path = path,
		.mode = S_IFREG | mode,
		.uid = uid,
		.gid = gid,
		.mtime = mtime,
		.size = len};

	return s->ops->add(s, &entry, &d, e);
}
