/* Guest memory as a stack of files: a base with every page, and layers with the pages that were
 * written later (proto/memory_layer.h). A restore maps each page privately from the topmost file
 * that has it. So all VMs on the same files share their pages in the host's page cache.
 *
 * Files must not change while they are mapped. Truncating one ends the process with SIGBUS,
 * or the guest (backing.h). */
#ifndef VMM_LAYERS_H
#define VMM_LAYERS_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/memory_layer.h"
#include "proto/snapshot.h"
#include "vmm/memory.h"
#include "vmm/pages.h"

enum {
	LAYER_GAP_PAGES = 4, /* gaps up to this are included: cheaper than one mapping each */
	LAYER_MAPPINGS_MAX = 12000, /* of one memory; beyond it, pages are copied or merged. A
				     * process may have 65,530, and each piece may leave one on
				     * either side */
};

/* What a memory stands on. Zeroed: nothing, as after a boot. */
struct memory_stack {
	bool has_base;
	unsigned layer_count;
	unsigned mappings;     /* upper bound */
	struct layer_id top;   /* all zeroes: no layer */
	struct page_set above; /* pages that some layer has; owned */
};

void memory_stack_done(struct memory_stack *s);

/* Maps layers, lowest first, over a memory that is mapped from their base.
 * check: read all their pages and compare the checksum; without it only the tables are checked.
 * max_mappings: at most LAYER_MAPPINGS_MAX; if there are more pieces, the smallest are copied.
 * Descriptors are borrowed. ERROR_BAD_SNAPSHOT when a layer is damaged or does not belong on the
 * one below it. */
int layers_map(const struct guest_memory *m, const int *fds, unsigned count, bool check,
	unsigned max_mappings, struct memory_stack *ret, struct error *e);

/* Writing a layer takes two steps. layer_write_pages writes the pages to an empty read-write file.
 * layer_complete adds head and checksum later, when nobody is in a hurry, and makes the file
 * durable. The set has at most LAYER_RANGES_MAX ranges. */
int layer_write_pages(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e);
int layer_complete(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct layer_id *id, const struct layer_id *parent, struct error *e);

/* Writes a file of the whole memory with just these pages. The others, and zeroes, are holes. */
int base_write_pages(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e);

/* Maps pages from the layer that they were written to, in place of the memory's own copies;
 * base_adopt does so with all of a base. vCPUs are stopped; KVM's view follows. A failure halfway
 * is harmless: a page has the same content either way. */
int layer_adopt(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e);
/* Maps the pages in `pages` but not in `except` from the layer's file. */
int layer_adopt_rest(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *except, struct error *e);
int base_adopt(int fd, const struct guest_memory *m, struct error *e);

/* Maps `part` of the memory privately from a file that holds `pages` one after the other from
 * offset `at` on. Each range of part lies within one of pages. Returns 0, or -errno with some of it
 * mapped. */
int layers_map_part(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *part, uint64_t at);

/* Undoes an adoption, also while vCPUs run: the pages become the memory's own again. */
void layer_disown(const struct guest_memory *m, const struct page_set *pages);

#endif
