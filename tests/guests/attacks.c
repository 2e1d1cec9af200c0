/* Hostile guests, seen from the host. What a guest may do to itself is its own affair; the VMM must
 * live, stay controllable, and keep its hands off what is not the guest's. */
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "harness.h"

enum { PROMPT_MS = 500, SURVIVE_MS = 300 };

/* The guest may end as it likes, or not at all. */
static void survive(const struct test *t)
{
	struct machine m;
	char why[160];

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	(void)machine_serve(&m, SURVIVE_MS);
	(void)printf("ended with %d", (int)vm_ended(m.vm, why, sizeof(why)));
	(void)printf(" (%s), value 0x%x\n", why, vm_power_off_value(m.vm));
	machine_pause(&m);
	machine_free(&m);
}

static void expect_prompt(uint64_t begin, const char *what)
{
	uint64_t ms = (clock_monotonic_ns() - begin) / NS_PER_MS;

	if (ms > PROMPT_MS)
		fail("%s took %u ms", what, (unsigned)ms);
}

/* A guest that does nothing but run can be paused, saved, resumed, restored and ended. */
static void control_loop(const struct test *t)
{
	struct machine m, restored;
	uint64_t begin;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	for (unsigned i = 0; i < 20; i++) {
		begin = clock_monotonic_ns();
		machine_pause(&m);
		expect_prompt(begin, "vm_pause");
		vm_resume(m.vm);
	}
	machine_pause(&m);
	machine_save(&m, "snapshot");
	vm_resume(m.vm);
	machine_restore(&restored, "snapshot", 0);
	vm_resume(restored.vm);
	(void)poll(NULL, 0, 5); /* both run */
	begin = clock_monotonic_ns();
	machine_free(&m);
	machine_free(&restored);
	expect_prompt(begin, "vm_free");
}

/* The device never comes to the end of its queue, or requests take seconds each. The machine obeys
 * all the same, and so does one that is restored from it. */
static void busy_queue(const struct test *t)
{
	struct machine m, restored;
	struct lineage l;
	uint64_t begin;

	machine_boot(&m, t->guest, t->line, t->cpus);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	for (unsigned i = 0; i < 20; i++) {
		(void)poll(NULL, 0, 5); /* it runs */
		begin = clock_monotonic_ns();
		machine_pause(&m);
		expect_prompt(begin, "vm_pause");
		if (i == 0) {
			machine_save(&m, "snapshot");
			lineage_start(&l, "snapshot");
		}
		vm_resume(m.vm);
	}
	machine_restore(&restored, "snapshot", 0);
	begin = clock_monotonic_ns();
	vm_resume(restored.vm);
	machine_snapshot(&restored, "live", false, &l);
	expect_prompt(begin, "a live snapshot");
	begin = clock_monotonic_ns();
	machine_free(&m);
	machine_free(&restored);
	expect_prompt(begin, "vm_free");
}

/* Freed without having run, and twice resumed or paused. */
static void odd_calls(const struct test *t)
{
	struct machine m;

	machine_boot(&m, t->guest, t->line, t->cpus);
	machine_free(&m);
	machine_boot(&m, t->guest, t->line, t->cpus);
	machine_pause(&m);
	machine_pause(&m);
	vm_resume(m.vm);
	vm_resume(m.vm);
	machine_wait_stage(&m, 1);
	machine_pause(&m);
	machine_free(&m);
}

#define HOSTILE(test)                                                                              \
	{                                                                                          \
		"hostile-" test, run_guest, "hostile", test                                        \
	}

const struct test hostile_tests[] = {
	HOSTILE("loop"),
	HOSTILE("next-out-of-range"),
	HOSTILE("head-out-of-range"),
	HOSTILE("address-outside"),
	HOSTILE("length-zero"),
	HOSTILE("wrong-order"),
	HOSTILE("indirect-size"),
	HOSTILE("indirect-outside"),
	HOSTILE("indirect-nested"),
	HOSTILE("indirect-chain"),
	HOSTILE("indirect-not-negotiated"),
	HOSTILE("indirect-huge"),
	HOSTILE("index-jump"),
	HOSTILE("no-status"),
	HOSTILE("write-over-rings"),
	HOSTILE("queue-size"),
	HOSTILE("queue-address"),
	HOSTILE("queue-at-the-end"),
	HOSTILE("status-order"),
	HOSTILE("no-queues"),
	HOSTILE("no-such-queue"),
	HOSTILE("notify-early"),
	HOSTILE("move-queue"),
	{"hostile-race", run_guest, "hostile", "race", .cpus = 2},
	{"hostile-reset-in-flight", run_guest, "hostile", "reset-in-flight", .cpus = 2},
	{"hostile-endless-queue", busy_queue, "hostile", "endless-queue"},
	{"hostile-long-requests", busy_queue, "hostile", "long-requests"},
	{"hostile-mmio-sizes", run_guest, "junk", "mmio-sizes"},
	{"hostile-mmio-holes", run_guest, "junk", "mmio-holes"},
	{"hostile-mmio-random", run_guest, "junk", "mmio-random"},
	{"hostile-mmio-instructions", run_guest, "junk", "mmio-instructions"},
	{"hostile-mmio-wide", survive, "junk", "mmio-wide"},
	{"hostile-execute-mmio", survive, "junk", "execute-mmio"},
	{"hostile-mmio-storm", run_guest, "junk", "mmio-storm 4", .cpus = 4},
	{"hostile-ioapic", run_guest, "junk", "ioapic"},
	{"hostile-ioapic-modes", survive, "junk", "ioapic-modes"},
	{"hostile-serial", run_guest, "junk", "serial"},
	{"hostile-ports-0", run_guest, "junk", "ports 0", .once = true},
	{"hostile-ports-1", run_guest, "junk", "ports 1", .once = true},
	{"hostile-ports-2", run_guest, "junk", "ports 2", .once = true},
	{"hostile-ports-3", run_guest, "junk", "ports 3", .once = true},
	{"hostile-string-io", run_guest, "junk", "string-io"},
	{"hostile-string-io-mmio", run_guest, "junk", "string-io-mmio"},
	{"hostile-console-flood", run_guest, "junk", "console-flood"},
	{"hostile-triple-fault", run_guest, "junk", "triple-fault", .end = VM_END_CRASH},
	{"hostile-reset", run_guest, "junk", "reset", .end = VM_END_RESET},
	{"hostile-keyboard-reset", run_guest, "junk", "keyboard-reset", .end = VM_END_RESET},
	{"hostile-vsock", run_guest, "junk", "vsock"},
	{"hostile-infinite-loop", control_loop, "junk", "infinite-loop"},
	{"odd-calls", odd_calls, "junk", "infinite-loop"},
	{0},
};
