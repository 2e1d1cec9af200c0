/* Keeps sandboxes that compute all the time from delaying those that need a CPU for a moment.
 *
 * Every FAIR_PERIOD_MS it measures how much of the time each thread of a microVM wanted to run,
 * that is, ran or waited for a CPU as the kernel counts it. If a thread wanted to run nearly all
 * the time, a vCPU computes without pause. Then the microVM gets idle priority (SCHED_IDLE, and
 * cpu.idle of its control group, Linux 5.15). It gets its normal priority back when no thread wants
 * to run for half of the time any more. The priority only matters while CPUs are short. Then the
 * daemon and the commands of other sandboxes run first, and the microVMs at idle priority share the
 * rest equally.
 *
 * A nice value would do the same on average, but later: a thread that wakes up preempts a process
 * of idle priority at once, and any other process only at the scheduler's next tick.
 *
 * This module lowers only microVMs whose priority it can raise again, which takes root or
 * RLIMIT_NICE (systemd: LimitNICE=0). It needs a kernel with CONFIG_SCHED_INFO. */
#ifndef LIFECYCLE_FAIR_H
#define LIFECYCLE_FAIR_H

struct fleet;
struct instance;

enum { FAIR_PERIOD_MS = 500 };

/* Measures all running sandboxes. An idle one costs a system call. */
void fair_look(struct fleet *f);

/* Restores the normal priority. Call it before a microVM is ended, paused or copied, which might
 * take forever at idle priority. A later measurement may lower it again. */
void fair_let_go(struct instance *i);

#endif
