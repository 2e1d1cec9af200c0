/* Stores kernels that are ready to boot: kernels/<release>/ below the state directory.
 *
 *   vmlinux            the ELF image
 *   config             the kernel's configuration, when its package had it
 *   modules/           the modules that guests need, their order, and modules.builtin
 *   initrd-<hash>.cpio initramfs for one agent; the hash is over the agent and the modules */
#ifndef IMAGE_KERNEL_STORE_H
#define IMAGE_KERNEL_STORE_H

#include <stdbool.h>

#include "base/error.h"
#include "image/home.h"
#include "image/kernel.h"
#include "image/progress.h"

struct kernel_options {
	const char *agent;  /* path of the agent's binary */
	const char *kernel; /* a bzImage, a vmlinux or a .deb; NULL: the newest kernel in the store,
			     * or else the distribution's package */
	const char *modules; /* /lib/modules/<release> of `kernel`; NULL for a .deb, or when all
			      * that is needed is built in */
	bool refresh;	     /* look for a newer package even if the store has a kernel */
};

struct kernel {
	char release[KERNEL_RELEASE_MAX];
	char *vmlinux; /* owned; absolute paths */
	char *initrd;
};

/* Prepares a kernel and its initramfs for that agent. If the store has no kernel, it looks for an
 * earlier download of tools/fetch-kernel: $MAYFLY_CACHE/kernels/cloud/{vmlinuz,modules}, by default
 * in ~/.cache/mayfly. Otherwise it downloads a package. Cheap when everything exists: it then only
 * reads the agent and the modules. */
int kernel_prepare(const struct home *h, const struct kernel_options *o, const struct progress *p,
	struct kernel *ret, struct error *e);
void kernel_done(struct kernel *k);

#endif
