/* What tests of microVM processes share. Each call ends the program with a message when something
 * is not as expected, unless it returns what went wrong. */
#ifndef TESTS_GUESTS_PROCESS_H
#define TESTS_GUESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/launch.h"
#include "sandbox/vmm_snapshot.h"

enum { SMALL_MB = 8, WAIT_MS = 5000, SLOW_MS = 3000, CHILDREN = 8, SKIPPED = 77, PATH_BYTES = 128 };

/* The directory of the tests, a disk's image in it, and what the arguments say. */
extern char dir[], image[64];
extern const char *test_name, *guests, *faulty;
extern int work_fd; /* of dir */

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail("%s:%d: %s", __FILE__, __LINE__, #condition);                         \
	} while (0)

struct machine {
	struct vmm *vmm;
	char dir[PATH_BYTES]; /* whole path */
	const char *name;     /* of it, below the test's */
	unsigned freezes;     /* its writable delta is delta0, delta1, ... */
};

void remove_dir(void);
int open_dir(const char *name);
off_t size_of(const char *name);
bool exists(const char *name);
void set_fault(const char *spec);
void clear_fault(void);
void use_jail(void);
void await_start(struct machine *m);
void launch(struct machine *m, const char *name, struct vmm_launch *l);
void boot_guest(
	struct machine *m, const char *name, const char *guest, const char *cmdline, int egress_fd);
void boot(struct machine *m, const char *name);
void status(const struct machine *m, char out[256]);
bool is_paused(const struct machine *m);
void await_exits(const struct machine *m, unsigned long long n);
void expect_running(const struct machine *m);
int try_snapshot(struct machine *m, const char *name, bool final, struct vmm_snapshot_result *ret,
	bool *switched, struct error *e);
void snapshot(struct machine *m, const char *name, bool final, bool full);
void stop(struct machine *m);
void restore_with(struct machine *m, const char *name, bool paused, int egress_fd);
void restore(struct machine *m, const char *name, bool paused);
void make_parent(struct machine *m);
void remove_snapshots(void);

/* process_streams.c */
void guest_streams(void);
void no_guest_streams(void);
void many_guest_streams(void);
void guest_streams_and_snapshots(void);

#endif
