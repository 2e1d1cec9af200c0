#include "names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 1 << 20, NAMES_BYTES_MAX = 64 << 20 };

void names_done(struct names *n)
{
	free(n->text);
	free(n->sorted);
}

static int names_add(struct names *n, const char *name)
{
	size_t length = strlen(name) + 1;

	if (n->count >= NAMES_MAX || n->bytes + length > NAMES_BYTES_MAX)
		return -E2BIG;
	if (n->bytes + length > n->capacity) {
		size_t capacity = n->capacity ? n->capacity * 2 : 4096;
		char *p = realloc(n->text, capacity);

		if (!p)
			return -ENOMEM;
		n->text = p;
		n->capacity = capacity;
	}
	memcpy(n->text + n->bytes, name, length);
	n->bytes += length;
	n->count++;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_sort(struct names *n)
{
	char *p = n->text;

	n->sorted = malloc(n->count * sizeof(n->sorted[0]) + 1);
	if (!n->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n->count; i++, p += strlen(p) + 1)
		n->sorted[i] = p;
	qsort(n->sorted, n->count, sizeof(n->sorted[0]), compare);
	return 0;
}

int names_read(const char *path, struct names *n)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = names_add(n, e->d_name);
	(void)closedir(d); /* read-only */
	return r == 0 ? names_sort(n) : r;
}
