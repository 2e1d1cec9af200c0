/* Guest memory as a stack of files: a base with every page, and layers with the pages that were
 * written since (proto/memory_layer.h). Restoring maps the topmost owner of each page, privately,
 * so that all who stand on a file share its pages in the host's page cache.
 *
 * Files must not change while they are mapped; truncating one ends the process with SIGBUS. */
#ifndef VMM_LAYERS_H
#define VMM_LAYERS_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/memory_layer.h"
#include "vmm/memory.h"
#include "vmm/pages.h"

enum {
	MEMORY_LAYERS_MAX = 16,
	LAYER_GAP_PAGES = 4, /* gaps up to here are written along: cheaper than a mapping each */
	LAYER_MAPPINGS_MAX = 12000, /* of one memory; what would be more is copied or merged. A
				     * process may have 65,530, and each has one to either side */
};

/* What a memory stands on. Zeroed: on nothing, as after a boot. */
struct memory_stack {
	bool has_base;
	unsigned layer_count;
	unsigned mappings;     /* at most */
	struct layer_id top;   /* zeroes: no layer */
	struct page_set above; /* pages that some layer has; owned */
};

void memory_stack_done(struct memory_stack *s);

/* Puts layers, the lowest first, over a memory that is mapped from their base. `check`: reads all
 * of their pages and compares the checksum, else only the tables' are. Descriptors are borrowed. At
 * most max_mappings (LAYER_MAPPINGS_MAX) pieces are mapped; the smallest ones are copied if there
 * were more. ERROR_BAD_SNAPSHOT when one is damaged or they are not the layers of one another. */
int layers_map(const struct guest_memory *m, const int *fds, unsigned count, bool check,
	unsigned max_mappings, struct memory_stack *ret, struct error *e);

/* Writing a layer: pages into an empty read-write file, then, when they no longer matter to anybody
 * in a hurry, head and checksum, after which the file is durable and complete. The set has at most
 * LAYER_RANGES_MAX ranges. */
int layer_write_pages(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e);
int layer_complete(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct layer_id *id, const struct layer_id *parent, struct error *e);

/* Writes these pages of a memory as a file of all of it; the others, and zeroes, are holes. */
int base_write_pages(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e);

/* Maps pages that were written to a layer (or, with a base, all of it) from there, in place of the
 * memory's own copies. vCPUs are stopped; KVM's view follows. A failure in the middle does no harm:
 * what lies behind a page is the same. */
int layer_adopt(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e);
/* Maps what is in the layer's `pages` and not in `except` from the layer's file. */
int layer_adopt_rest(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *except, struct error *e);
int base_adopt(int fd, const struct guest_memory *m, struct error *e);

/* Maps `part` of the memory, privately, from a file that has `pages` one after the other from offset
 * `at` on. Each range of part lies in one of pages. 0 or -errno, with some of it mapped. */
int layers_map_part(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *part, uint64_t at);

/* Undoes an adoption, also while vCPUs run: the pages are the memory's own again. */
void layer_disown(const struct guest_memory *m, const struct page_set *pages);

#endif
