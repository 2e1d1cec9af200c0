#include "vmm/priority.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system call changes one thread; musl has no function for it.
 *
 * #calls start: sched_setscheduler */
static bool set_policy(int policy)
{
	const struct sched_param none = {0};

	return syscall(SYS_sched_setscheduler, 0, policy, &none) == 0;
}

static void *there_and_back(void *ret)
{
	*(bool *)ret = set_policy(SCHED_IDLE) && set_policy(SCHED_OTHER);
	return NULL;
}

/* Tries it on a thread that may stay low. */
static bool can_come_back(void)
{
	bool can = false;
	pthread_t thread;

	if (pthread_create(&thread, NULL, there_and_back, &can) != 0)
		return false;
	(void)pthread_join(thread, NULL); /* it is ours */
	return can;
}

bool priority_lower(void)
{
	return can_come_back() && set_policy(SCHED_IDLE);
}

void priority_restore(void)
{
	(void)set_policy(SCHED_OTHER); /* can_come_back tried it */
}
