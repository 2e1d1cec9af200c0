/* Two listings of files as hostile guests give them, against what a look into both says. The input
 * is a row of nodes: a byte for the side and what is special, one for the length of the path, its
 * bytes out of few letters. */
#include "fuzz.h"

#include <errno.h>
#include <sys/stat.h>

#include "fleet/compare.h"

enum { NODES_MAX = 256, PATH_BYTES = 16 };

struct model {
	char paths[2][NODES_MAX][PATH_BYTES];
	unsigned counts[2];
	char told[2 * NODES_MAX][PATH_BYTES];
	unsigned told_count, added;
};

static bool has(const struct model *m, unsigned side, const char *path)
{
	for (unsigned i = 0; i < m->counts[side]; i++)
		if (strcmp(m->paths[side][i], path) == 0)
			return true;
	return false;
}

static void take(struct model *m, enum compare_step step, const struct agent_node *n)
{
	bool before = has(m, 0, n->path), after = has(m, 1, n->path);

	check(m->told_count < 2 * NODES_MAX);
	for (unsigned i = 0; i < m->told_count; i++)
		check(strcmp(m->told[i], n->path) != 0);
	strcpy(m->told[m->told_count++], n->path);
	check(before == (step != COMPARE_ADDED) && after == (step != COMPARE_DELETED));
	m->added += step == COMPARE_ADDED;
}

static enum compare_step drain(struct compare *c, struct model *m)
{
	enum compare_step step;
	struct agent_node n;

	while ((step = compare_next(c, &n)) != COMPARE_MORE && step != COMPARE_DONE)
		take(m, step, &n);
	return step;
}

static bool is_told(const struct model *m, const char *path)
{
	for (unsigned i = 0; i < m->told_count; i++) {
		size_t n = strlen(m->told[i]);

		if (strncmp(m->told[i], path, n) == 0 && (!path[n] || path[n] == '/'))
			return true;
	}
	return false;
}

/* What came is told each, what went itself or in a directory. */
static void check_complete(const struct model *m)
{
	unsigned added = 0;

	for (unsigned i = 0; i < m->counts[1]; i++)
		added += !has(m, 0, m->paths[1][i]);
	check(added == m->added);
	for (unsigned i = 0; i < m->counts[0]; i++)
		check(has(m, 1, m->paths[0][i]) || is_told(m, m->paths[0][i]));
}

static struct agent_node node_of(uint8_t kind, const char *path)
{
	static const uint32_t modes[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK | 0777, S_IFCHR};

	return (struct agent_node){.mode = modes[kind >> 1 & 3],
		.size = kind >> 3 & 1,
		.mtime_ns = kind >> 4 & 1,
		.ctime_ns = kind >> 5 & 1,
		.path = path,
		.target = kind >> 6 & 1 ? "x" : ""};
}

static void add(struct compare *c, struct model *m, uint8_t kind, const char *path)
{
	const struct agent_node n = node_of(kind, path);
	unsigned side = kind & 1;
	struct error e = {0};
	int r;

	if (m->counts[side] == NODES_MAX)
		return;
	r = compare_add(c, side, &n, &e);
	check(r == 0 || (r == -EBADMSG && e.code == ERROR_SANDBOX));
	if (r == 0)
		strcpy(m->paths[side][m->counts[side]++], path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char letters[] = {'/', 'a', '!', (char)0xff};
	struct compare *c = compare_new();
	static struct model m; /* large */

	check(c);
	memset(&m, 0, sizeof(m));
	while (size > 2) {
		size_t length = data[1] % (PATH_BYTES - 1) + 1, i;
		char path[PATH_BYTES];

		for (i = 0; i < length && i + 2 < size; i++)
			path[i] = letters[data[i + 2] & 3];
		path[i] = '\0';
		add(c, &m, data[0], path);
		if (data[0] & 0x80)
			check(drain(c, &m) == COMPARE_MORE);
		data += i + 2;
		size -= i + 2;
	}
	compare_end(c, 0);
	compare_end(c, 1);
	check(drain(c, &m) == COMPARE_DONE);
	check_complete(&m);
	compare_free(c);
	return 0;
}
