/* Keeps sandboxes that want the CPU all the time from delaying those that want it for a moment.
 *
 * Every FAIR_PERIOD_MS it looks how much of the time each thread of a microVM wanted to run: it
 * ran, or waited for a CPU, as the kernel counts it. If one wanted nearly always, it is a CPU of
 * the guest that computes without end. Then the microVM runs at idle priority (SCHED_IDLE, and
 * cpu.idle of its control group, Linux 5.15), and gets back to normal when none wants half of the
 * time any more. The priority matters only while CPUs are short: then commands of other sandboxes,
 * and the daemon, run first, and all who want much share the rest alike. A nice value would do the
 * same on average, but later: who wakes up takes the CPU of a process of idle priority at once, and
 * that of any other process only at the scheduler's next tick.
 *
 * It does nothing for microVMs that it could not raise again: that takes root or RLIMIT_NICE
 * (systemd: LimitNICE=0), and a kernel that counts (CONFIG_SCHED_INFO). */
#ifndef LIFECYCLE_FAIR_H
#define LIFECYCLE_FAIR_H

struct fleet;
struct instance;

enum { FAIR_PERIOD_MS = 500 };

/* Looks at all running sandboxes. An idle one costs a system call. */
void fair_look(struct fleet *f);

/* Before a microVM ends, is paused or copied: at idle priority that might take for ever. It may be
 * lowered again a second later. */
void fair_let_go(struct instance *i);

#endif
