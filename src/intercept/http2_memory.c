#include "intercept/http2_memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

bool http2_account_take(struct http2_account *a, size_t n)
{
	struct http2_budget *b = a->budget;

	if (n > HTTP2_MEMORY_MAX || a->bytes > HTTP2_MEMORY_MAX - n) {
		a->refused =
			"its HTTP/2 takes too much memory: over 4 MiB of headers and frames wait";
		return false;
	}
	if (b && (n > HTTP2_BUDGET_MAX || b->bytes > HTTP2_BUDGET_MAX - n)) {
		a->refused =
			"HTTP/2 of all intercepted connections takes too much memory: over 32 MiB "
			"of headers and frames wait";
		return false;
	}
	a->bytes += n;
	if (b)
		b->bytes += n;
	return true;
}

void http2_account_give(struct http2_account *a, size_t n)
{
	a->bytes -= n;
	if (a->budget)
		a->budget->bytes -= n;
}

bool http2_account_has(const struct http2_account *a, size_t n)
{
	const struct http2_budget *b = a->budget;

	return a->bytes + n <= HTTP2_MEMORY_MAX / 2 && (!b || b->bytes + n <= HTTP2_BUDGET_MAX / 2);
}

bool http2_budget_take(struct http2_budget *b, size_t n)
{
	if (b && b->lent + n > HTTP2_LENT_MAX)
		return false;
	if (b)
		b->lent += n;
	return true;
}

void http2_budget_give(struct http2_budget *b, size_t n)
{
	if (b)
		b->lent -= n;
}

/* Counts the allocated size, which is a little more than the requested size. */
static void *count(struct http2_memory *m, void *p)
{
	size_t n = p ? malloc_usable_size(p) : 0;

	if (!http2_account_take(m->account, n)) {
		free(p);
		return NULL;
	}
	m->bytes += n;
	return p;
}

static void *mem_malloc(size_t n, void *arg)
{
	return count(arg, malloc(n));
}

static void *mem_calloc(size_t n, size_t size, void *arg)
{
	return count(arg, calloc(n, size));
}

static void mem_free(void *p, void *arg)
{
	struct http2_memory *m = arg;
	size_t n = p ? malloc_usable_size(p) : 0;

	if (!p)
		return;
	m->bytes -= n;
	http2_account_give(m->account, n);
	explicit_bzero(p, n);
	free(p);
}

/* Leaves no copy behind. */
static void *mem_realloc(void *p, size_t n, void *arg)
{
	size_t before = p ? malloc_usable_size(p) : 0;
	void *fresh = mem_malloc(n, arg);

	if (!fresh)
		return NULL;
	if (before)
		memcpy(fresh, p, before < n ? before : n);
	mem_free(p, arg);
	return fresh;
}

void http2_memory_init(struct http2_memory *m, struct http2_account *a)
{
	*m = (struct http2_memory){
		.mem = {m, mem_malloc, mem_free, mem_calloc, mem_realloc}, .account = a};
}
