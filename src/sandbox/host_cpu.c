#include "sandbox/host_cpu.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "vmm/cpu_model.h"
#include "vmm/kvm.h"

enum { MODULES = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ino_t known_modules[MODULES];
static uint64_t known; /* 0: not known */

/* A module that is loaded anew gets new inodes in sysfs. */
static void look_at_modules(ino_t out[MODULES])
{
	static const char *const paths[MODULES] = {
		"/sys/module/kvm", "/sys/module/kvm_intel", "/sys/module/kvm_amd"};
	struct stat st;

	for (size_t i = 0; i < MODULES; i++)
		out[i] = stat(paths[i], &st) == 0 ? st.st_ino : 0;
}

static uint64_t ask(void)
{
	_cleanup_close_ int kvm_fd = kvm_open(NULL);
	struct cpu_facts f;

	return kvm_fd >= 0 && cpu_facts_here(kvm_fd, &f, NULL) == 0 ? cpu_facts_hash(&f) : 0;
}

uint64_t host_cpu_hash(void)
{
	ino_t modules[MODULES];
	uint64_t r;

	look_at_modules(modules);
	(void)pthread_mutex_lock(&lock); /* a plain mutex: cannot fail */
	if (!known || memcmp(modules, known_modules, sizeof(modules)) != 0) {
		known = ask();
		memcpy(known_modules, modules, sizeof(modules));
	}
	r = known;
	(void)pthread_mutex_unlock(&lock); /* held */
	return r;
}
