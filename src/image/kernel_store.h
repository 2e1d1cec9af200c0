/* Kernels that are ready to boot: kernels/<release>/ below the state directory.
 *
 *   vmlinux            the ELF image
 *   config             the kernel's configuration, when its package had it
 *   modules/           the modules that guests need, and modules.builtin
 *   initrd-<hash>.cpio initramfs for one agent; the hash is over the agent and the modules
 */
#ifndef IMAGE_KERNEL_STORE_H
#define IMAGE_KERNEL_STORE_H

#include <stdbool.h>

#include "base/error.h"
#include "image/home.h"
#include "image/kernel.h"
#include "image/progress.h"

struct kernel_options {
	const char *agent;  /* path of the agent's binary */
	const char *kernel; /* a bzImage, a vmlinux or a .deb; NULL: the newest kernel here, or else
			       the distribution's package */
	const char *modules; /* /lib/modules/<release> of `kernel`; NULL when it has what is needed
				built in, or for a .deb */
	bool refresh;	     /* look for a newer package even when a kernel is here */
};

struct kernel {
	char release[KERNEL_RELEASE_MAX];
	char *vmlinux; /* owned, absolute paths */
	char *initrd;
};

/* Makes a kernel and its initramfs for that agent ready. Without a kernel here, and with
 * $MAYFLY_CACHE/kernels/cloud/{vmlinuz,modules} (a package that tools/fetch-kernel fetched; by
 * default in ~/.cache/mayfly), takes that instead of downloading. Cheap when everything is there:
 * reads the agent. */
int kernel_prepare(const struct home *h, const struct kernel_options *o, const struct progress *p,
	struct kernel *ret, struct error *e);
void kernel_done(struct kernel *k);

#endif
