/* Runs bare guests and looks at what they did from the host's side.
 *
 * Each test runs in a process of its own with a directory of its own, so that a crash or a hang of
 * the VMM is a failed test and nothing more. The calls below end the process with a message when
 * something is not as expected. Besides what a test checks itself, its process must not leak a
 * descriptor, and nothing may have written just outside of guest memory (guard.c). */
#ifndef GUESTS_HARNESS_H
#define GUESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "vmm/vm.h"

enum {
	DEADLINE_MS = 30000, /* of one guest run */
	MEMORY_MB = 64,
	DISK_SECTORS = 16384,
	SECTOR_BYTES = 512,
};

struct machine {
	struct vm *vm;
	char dir[16];	  /* its directory below the test's */
	unsigned freezes; /* its writable delta is delta, delta1, ... in there */
};

struct test {
	const char *name;
	void (*run)(const struct test *t);
	/* For tests that are one run of a guest: */
	const char *guest, *line; /* program and command line */
	unsigned cpus;		  /* 0: one */
	enum vm_end end;	  /* VM_RUNNING: it powers off and says that it passed */
	bool once;		  /* takes long, and does not depend on the kind of guard */
	unsigned limit_s;	  /* 0: a minute */
};

extern const struct test snapshot_tests[], layer_tests[], hostile_tests[];

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail("%s:%d: %s", __FILE__, __LINE__, #condition);                         \
	} while (0)

/* Creates a paused machine: entropy device, vsock, a writable disk and a read-only one. */
void machine_boot(struct machine *m, const char *guest, const char *line, unsigned cpus);
void machine_pause(struct machine *m);
/* Writes a paused machine into a new directory of this name. */
void machine_save(struct machine *m, const char *name);
/* disk_bytes: capacity of the writable disk, 0: as it was. The second returns what vm_create did.
 */
void machine_restore(struct machine *m, const char *name, uint64_t disk_bytes);
int machine_try_restore(struct machine *m, const char *name, uint64_t disk_bytes, struct error *e);
void machine_free(struct machine *m);

/* What a machine is restored from, by the names of its parts: directories in the test's. */
enum { LINEAGE_MAX = 40 };
struct lineage {
	char state[16];		      /* directory of the state */
	char memory[24];	      /* file of the full memory */
	char layers[LINEAGE_MAX][32]; /* files, lowest first */
	char deltas[LINEAGE_MAX][32]; /* of the writable disk */
	unsigned layer_count, delta_count;
	unsigned image_deltas; /* how many of these, the lowest, are the image's */
	bool check;	       /* the layers' content */
};
void lineage_start(struct lineage *l, const char *snapshot); /* of a machine_save */
int machine_try_restore_lineage(struct machine *m, const struct lineage *l, struct error *e);
void machine_restore_lineage(struct machine *m, const struct lineage *l);
/* Incremental snapshot into a new directory of this name; l is what the machine stands on and
 * becomes what the snapshot does. The first returns what vm_snapshot did. */
int machine_try_snapshot(struct machine *m, const char *name, bool final, struct lineage *l,
	struct vm_snapshot_result *ret, struct error *e);
void machine_snapshot(struct machine *m, const char *name, bool final, struct lineage *l);

/* Serves the machine until its guest ended; a guest that does not is a failure. */
enum vm_end machine_wait(struct machine *m);
void machine_expect_pass(struct machine *m);
/* The same with a limit of one's own; VM_RUNNING when it passed. */
enum vm_end machine_serve(struct machine *m, unsigned ms);

/* The guest's memory, and the mailbox in it. */
void *machine_memory(struct machine *m, uint64_t at, uint64_t bytes);
struct mailbox *machine_mailbox(struct machine *m);
void machine_wait_stage(struct machine *m, uint32_t stage);
void machine_answer(struct machine *m, uint32_t stage);

/* Reads a sector of the writable disk of a machine that is paused or ended, through its layers. */
/* Empty files of a snapshot, as this machine needs them, in a new directory. */
struct snapshot_files machine_snapshot_files(struct machine *m, const char *name);

void machine_read_sector(struct machine *m, uint64_t sector, uint8_t *out);

/* Test of one guest run, made of the table's fields. */
void run_guest(const struct test *t);

/* damaged.c */
void flip_bytes(const struct test *t);
void refuse_damaged(const struct test *t);
void load_other_tsc(const struct test *t);

/* Where the guests' programs are, and the test's directory. */
extern int guests_dirfd, work_dirfd;

/* --- guard.c: memory around guest memory --- */

/* Whether what lies around guest memory is readable (and watched for changes) or not accessible. */
void guard_set_accessible(bool accessible);
bool guard_is_intact(void); /* of everything mapped so far; call it after unmapping */

#endif
