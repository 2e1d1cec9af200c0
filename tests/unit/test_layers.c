/* Sets of pages against bitmaps, and stacks of memory layers against a model of the memory. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "vmm/backing.h"
#include "vmm/layers.h"

enum { PAGES = 300, ROUNDS = 300, STACKS = 60 };

static unsigned random_below(unsigned n)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (unsigned)(x >> 11) % n;
}

/* --- sets --- */

static void fill(struct page_set *s, bool bits[PAGES], unsigned percent)
{
	for (unsigned i = 0; i < PAGES; i++) {
		bits[i] = random_below(100) < percent;
		if (bits[i])
			assert_int_equal(page_set_append(s, i, 1), 0);
	}
}

/* The set has these pages, in ranges that are in order and neither overlap nor touch. */
static void expect_set(const struct page_set *s, const bool bits[PAGES])
{
	bool found[PAGES] = {false};
	uint32_t end = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		assert_true(s->ranges[i].count > 0);
		assert_true(i == 0 || s->ranges[i].first > end);
		end = s->ranges[i].first + s->ranges[i].count;
		assert_true(end <= PAGES);
		for (uint32_t k = s->ranges[i].first; k < end; k++)
			found[k] = true;
	}
	assert_memory_equal(found, bits, sizeof(found));
}

static void sets_do_as_bitmaps(void **state)
{
	(void)state; /* none */
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct page_set a = {0}, b = {0}, both = {0}, rest = {0};
		bool in_a[PAGES], in_b[PAGES], want[PAGES];

		fill(&a, in_a, random_below(101));
		fill(&b, in_b, random_below(101));
		expect_set(&a, in_a);
		assert_int_equal(page_set_union(&a, &b, &both), 0);
		for (unsigned i = 0; i < PAGES; i++)
			want[i] = in_a[i] || in_b[i];
		expect_set(&both, want);
		assert_int_equal(page_set_subtract(&a, &b, &rest), 0);
		for (unsigned i = 0; i < PAGES; i++)
			want[i] = in_a[i] && !in_b[i];
		expect_set(&rest, want);
		page_set_done(&a);
		page_set_done(&b);
		page_set_done(&both);
		page_set_done(&rest);
	}
}

static void gaps_are_closed(void **state)
{
	(void)state; /* none */
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned max_ranges = 1 + random_below(20), max_gap = random_below(5);
		struct page_set s = {0};
		bool bits[PAGES];

		fill(&s, bits, random_below(101));
		page_set_close_gaps(&s, max_gap, max_ranges);
		assert_true(s.count <= max_ranges);
		for (uint32_t i = 0; i + 1 < s.count; i++)
			assert_true(s.ranges[i + 1].first - s.ranges[i].first - s.ranges[i].count >
				    max_gap);
		for (unsigned i = 0; i < PAGES; i++) {
			bool found = false;

			for (uint32_t k = 0; k < s.count; k++)
				found |= i - s.ranges[k].first < s.ranges[k].count;
			assert_true(found || !bits[i]);
		}
		page_set_done(&s);
	}
}

static void ranges_may_be_long(void **state)
{
	struct page_set a = {0}, b = {0}, rest = {0};

	(void)state; /* none */
	assert_int_equal(page_set_append(&a, 0, 1000), 0);
	assert_int_equal(page_set_append(&a, 2000, 1000), 0);
	assert_int_equal(page_set_append(&b, 500, 2000), 0); /* over the end of one into the next */
	assert_int_equal(page_set_subtract(&a, &b, &rest), 0);
	assert_int_equal(rest.count, 2);
	assert_true(rest.ranges[0].first == 0 && rest.ranges[0].count == 500);
	assert_true(rest.ranges[1].first == 2500 && rest.ranges[1].count == 500);
	page_set_done(&a);
	page_set_done(&b);
	page_set_done(&rest);
}

/* --- what was written --- */

static int memory_file(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, PAGES * PAGE_BYTES), 0);
	return fd;
}

static void written_pages_are_found(void **state)
{
	_cleanup_close_ int fd = memory_file();
	struct guest_memory m;
	struct page_set s = {0};
	bool want[PAGES] = {false};

	(void)state; /* none */
	assert_int_equal(guest_memory_map(&m, fd, PAGES * PAGE_BYTES, NULL), 0);
	for (unsigned i = 0; i < PAGES; i += 1 + random_below(9)) {
		want[i] = true;
		m.map[i * PAGE_BYTES + 17] = 0; /* a write counts, also of what was there */
	}
	(void)*(volatile uint8_t *)(m.map + 20 * PAGE_BYTES); /* a look does not */
	assert_int_equal(pages_written(&m, pages_open(-1), &s), 0);
	expect_set(&s, want);
	page_set_done(&s);
	guest_memory_done(&m);
}

/* --- stacks --- */

struct stack {
	int base_fd, fds[SNAPSHOT_LAYERS_MAX]; /* owned */
	struct layer_id top;
	unsigned count;
	uint8_t model[PAGES]; /* what fills each page */
	bool above[PAGES];    /* some layer may have it */
};

static void write_page(struct guest_memory *m, unsigned page, uint8_t value)
{
	memset(m->map + (uint64_t)page * PAGE_BYTES, value, PAGE_BYTES);
}

/* One more layer, with random pages; some become zeroes. */
static void add_layer(struct stack *s, unsigned percent)
{
	struct memory_stack below = {0};
	struct guest_memory m;
	struct page_set pages = {0};
	struct layer_id id = {.bytes = {(uint8_t)(s->count + 1), 7}};
	int fd = memfd_create("layer", MFD_CLOEXEC);

	assert_int_equal(guest_memory_map(&m, s->base_fd, PAGES * PAGE_BYTES, NULL), 0);
	assert_int_equal(
		layers_map(&m, s->fds, s->count, true, LAYER_MAPPINGS_MAX, &below, NULL), 0);
	for (unsigned i = 0; i < PAGES; i++)
		if (random_below(100) < percent) {
			s->model[i] = (uint8_t)random_below(4) ? (uint8_t)random_below(256) : 0;
			write_page(&m, i, s->model[i]);
		}
	assert_int_equal(pages_written(&m, pages_open(-1), &pages), 0);
	page_set_close_gaps(&pages, random_below(3), 1 + random_below(100));
	for (uint32_t i = 0; i < pages.count; i++)
		for (uint32_t k = 0; k < pages.ranges[i].count; k++)
			s->above[pages.ranges[i].first + k] = true;
	assert_int_equal(layer_write_pages(fd, &m, &pages, NULL), 0);
	assert_int_equal(layer_complete(fd, &m, &pages, &id, &s->top, NULL), 0);
	assert_int_equal(layer_adopt(fd, &m, &pages, NULL), 0);
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(m.map[i * PAGE_BYTES + 99], s->model[i]);
	s->fds[s->count++] = fd;
	s->top = id;
	page_set_done(&pages);
	memory_stack_done(&below);
	guest_memory_done(&m);
}

static void make_stack(struct stack *s, unsigned layers)
{
	struct guest_memory m;

	*s = (struct stack){.base_fd = memory_file()};
	m.map = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->base_fd, 0);
	assert_true(m.map != MAP_FAILED);
	for (unsigned i = 0; i < PAGES; i++) {
		s->model[i] = (uint8_t)i;
		write_page(&m, i, s->model[i]);
	}
	assert_int_equal(munmap(m.map, PAGES * PAGE_BYTES), 0);
	while (s->count < layers)
		add_layer(s, random_below(60));
}

static void stack_done(struct stack *s)
{
	close(s->base_fd);
	for (unsigned i = 0; i < s->count; i++)
		close(s->fds[i]);
}

static void expect_stack(const struct stack *s, unsigned max_mappings)
{
	struct memory_stack stack = {0};
	struct guest_memory m;

	assert_int_equal(guest_memory_map(&m, s->base_fd, PAGES * PAGE_BYTES, NULL), 0);
	assert_int_equal(layers_map(&m, s->fds, s->count, true, max_mappings, &stack, NULL), 0);
	for (unsigned i = 0; i < PAGES; i++)
		for (unsigned k = 0; k < PAGE_BYTES; k += 1000)
			assert_int_equal(m.map[i * PAGE_BYTES + k], s->model[i]);
	expect_set(&stack.above, s->above);
	assert_true(stack.layer_count == s->count && stack.mappings <= max_mappings);
	assert_true(layer_id_equal(&stack.top, &s->top));
	memory_stack_done(&stack);
	guest_memory_done(&m);
}

static void stacks_do_as_the_model(void **state)
{
	(void)state; /* none */
	for (unsigned round = 0; round < STACKS; round++) {
		struct stack s;

		make_stack(&s, random_below(SNAPSHOT_LAYERS_MAX + 1));
		expect_stack(&s, LAYER_MAPPINGS_MAX);
		expect_stack(&s, random_below(20)); /* most pieces are copied */
		stack_done(&s);
	}
}

/* The layer of what is in neither of two others is mapped around them. */
static void rest_is_adopted(void **state)
{
	_cleanup_close_ int base = memory_file(), fd = memfd_create("layer", MFD_CLOEXEC);
	struct page_set all = {0}, except = {0}, own = {0};
	bool in_all[PAGES], in_except[PAGES], want[PAGES];
	struct guest_memory m;

	(void)state; /* none */
	assert_int_equal(guest_memory_map(&m, base, PAGES * PAGE_BYTES, NULL), 0);
	fill(&all, in_all, 50);
	fill(&except, in_except, 30);
	for (unsigned i = 0; i < PAGES; i++)
		write_page(&m, i, (uint8_t)(i | 1));
	assert_int_equal(layer_write_pages(fd, &m, &all, NULL), 0);
	assert_int_equal(layer_adopt_rest(fd, &m, &all, &except, NULL), 0);
	for (unsigned i = 0; i < PAGES; i++)
		want[i] = !in_all[i] || in_except[i];
	assert_int_equal(pages_written(&m, pages_open(-1), &own), 0);
	expect_set(&own, want);
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(m.map[i * PAGE_BYTES + 5], (uint8_t)(i | 1));
	layer_disown(&m, &all);
	page_set_done(&own);
	assert_int_equal(pages_written(&m, pages_open(-1), &own), 0);
	assert_int_equal(page_set_pages(&own), PAGES);
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(m.map[i * PAGE_BYTES + 5], (uint8_t)(i | 1));
	page_set_done(&all);
	page_set_done(&except);
	page_set_done(&own);
	guest_memory_done(&m);
}

static void too_many_layers_are_refused(void **state)
{
	int fds[SNAPSHOT_LAYERS_MAX + 1] = {0};
	struct memory_stack stack = {0};
	_cleanup_close_ int base = memory_file();
	struct guest_memory m;
	struct error e = {0};

	(void)state; /* none */
	assert_int_equal(guest_memory_map(&m, base, PAGES * PAGE_BYTES, NULL), 0);
	assert_int_equal(
		layers_map(&m, fds, SNAPSHOT_LAYERS_MAX + 1, false, LAYER_MAPPINGS_MAX, &stack, &e),
		-EINVAL);
	assert_int_equal(e.code, ERROR_LIMIT);
	guest_memory_done(&m);
}

/* --- the files below --- */

static void truncation_is_noticed(void **state)
{
	struct backing b = {0};
	int first = memory_file(), last = memory_file();
	struct stat st;

	(void)state; /* none */
	assert_int_equal(backing_add(&b, first), 0);
	assert_int_equal(backing_take(&b, last), 0);
	assert_true(backing_is_whole(&b));
	assert_int_equal(fstat(last, &st), 0);
	assert_int_equal(ftruncate(last, st.st_size + PAGE_BYTES), 0);
	assert_true(backing_is_whole(&b)); /* all of its pages are there */
	assert_int_equal(ftruncate(last, st.st_size - 1), 0);
	assert_false(backing_is_whole(&b));
	backing_drop(&b, 1);
	assert_true(backing_is_whole(&b));
	while (b.count < BACKING_FILES_MAX)
		assert_int_equal(backing_add(&b, first), 0);
	assert_int_equal(backing_add(&b, first), -E2BIG);
	assert_int_equal(ftruncate(first, 0), 0);
	assert_int_equal(close(first), 0);
	assert_false(backing_is_whole(&b));
	backing_drop(&b, BACKING_FILES_MAX + 1);
	assert_int_equal(b.count, 0);
	assert_true(backing_is_whole(&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_do_as_bitmaps),
		cmocka_unit_test(gaps_are_closed),
		cmocka_unit_test(ranges_may_be_long),
		cmocka_unit_test(written_pages_are_found),
		cmocka_unit_test(stacks_do_as_the_model),
		cmocka_unit_test(rest_is_adopted),
		cmocka_unit_test(too_many_layers_are_refused),
		cmocka_unit_test(truncation_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
