#include "fleet/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

enum { SIDE_MAX = COMPARE_QUEUE_BYTES + 4 * (AGENT_HEADER_BYTES + AGENT_PAYLOAD_MAX) };

struct side {
	struct buf queue; /* NODE frames */
	size_t used;	  /* bytes at its head, for the next call to consume */
	char last[AGENT_PATH_MAX + 1];
	bool ended;
};

struct compare {
	struct side sides[2];
	char gone[AGENT_PATH_MAX + 1]; /* a directory that was reported as deleted, or "" */
};

struct compare *compare_new(void)
{
	struct compare *c = calloc(1, sizeof(*c));

	for (unsigned i = 0; c && i < 2; i++)
		buf_init(&c->sides[i].queue, SIDE_MAX);
	return c;
}

void compare_free(struct compare *c)
{
	for (unsigned i = 0; c && i < 2; i++)
		buf_done(&c->sides[i].queue);
	free(c);
}

static int weight(char ch)
{
	return ch == '/' ? 1 : ch ? (uint8_t)ch + 1 : 0;
}

/* Compares two paths by the order of a walk, in which a directory's contents follow it directly. */
static int order(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return weight(*a) - weight(*b);
}

int compare_add(struct compare *c, unsigned side, const struct agent_node *n, struct error *e)
{
	struct side *s = &c->sides[side];
	int r;

	if (order(s->last, n->path) >= 0)
		return error_set(
			e, ERROR_SANDBOX, EBADMSG, "the sandbox's agent lists files out of order");
	r = agent_node_encode(&s->queue, n);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, -r, "cannot keep a list of files");
	strcpy(s->last, n->path); /* bounded by the decoder */
	return 0;
}

void compare_end(struct compare *c, unsigned side)
{
	c->sides[side].ended = true;
}

bool compare_is_full(const struct compare *c, unsigned side)
{
	return buf_len(&c->sides[side].queue) >= COMPARE_QUEUE_BYTES;
}

static size_t frame_bytes(const struct side *s)
{
	struct agent_header h;

	/* compare_add() wrote it: one frame each */
	return agent_header_decode(buf_head(&s->queue), &h) == 0 ? AGENT_HEADER_BYTES + h.length
								 : 0;
}

static bool peek(const struct side *s, struct agent_node *ret)
{
	return buf_len(&s->queue) && agent_node_decode(buf_head(&s->queue) + AGENT_HEADER_BYTES,
					     frame_bytes(s) - AGENT_HEADER_BYTES, ret) == 0;
}

static void use(struct side *s)
{
	s->used = frame_bytes(s);
}

static void release(struct side *s)
{
	buf_consume(&s->queue, s->used);
	s->used = 0;
}

static enum compare_step judge(const struct agent_node *a, const struct agent_node *b)
{
	if (a->mode != b->mode || a->uid != b->uid || a->gid != b->gid || a->device != b->device)
		return COMPARE_CHANGED;
	if (S_ISCHR(a->mode) || S_ISBLK(a->mode))
		return COMPARE_MORE;
	if (a->mtime_ns != b->mtime_ns || strcmp(a->target, b->target) != 0)
		return COMPARE_CHANGED;
	if (!S_ISREG(a->mode))
		return COMPARE_MORE;
	if (a->size != b->size)
		return COMPARE_CHANGED;
	return a->inode == b->inode && a->ctime_ns == b->ctime_ns ? COMPARE_MORE : COMPARE_UNSURE;
}

static bool is_below(const char *directory, const char *path)
{
	return *directory && str_starts_with(path, directory) && path[strlen(directory)] == '/';
}

static void note_gone(struct compare *c, const struct agent_node *n)
{
	if (S_ISDIR(n->mode))
		strcpy(c->gone, n->path); /* bounded by the decoder */
}

/* Returns COMPARE_MORE when the two do not differ. */
static enum compare_step take_both(
	struct compare *c, const struct agent_node *a, const struct agent_node *b)
{
	use(&c->sides[0]);
	use(&c->sides[1]);
	if (!S_ISDIR(b->mode))
		note_gone(c, a);
	return judge(a, b);
}

static enum compare_step take_deleted(struct compare *c, const struct agent_node *a)
{
	use(&c->sides[0]);
	if (is_below(c->gone, a->path))
		return COMPARE_MORE;
	note_gone(c, a);
	return COMPARE_DELETED;
}

enum compare_step compare_next(struct compare *c, struct agent_node *ret)
{
	enum compare_step step = COMPARE_MORE;

	while (step == COMPARE_MORE) {
		struct side *before = &c->sides[0], *after = &c->sides[1];
		struct agent_node a = {0}, b = {0};
		bool have_a, have_b;
		int o;

		release(before);
		release(after);
		have_a = peek(before, &a);
		have_b = peek(after, &b);
		if ((!have_a && !before->ended) || (!have_b && !after->ended))
			return COMPARE_MORE;
		if (!have_a && !have_b)
			return COMPARE_DONE;
		o = !have_a ? 1 : !have_b ? -1 : order(a.path, b.path);
		*ret = o < 0 ? a : b;
		if (o < 0) {
			step = take_deleted(c, &a);
		} else if (o > 0) {
			use(after);
			step = COMPARE_ADDED;
		} else {
			step = take_both(c, &a, &b);
		}
	}
	return step;
}
