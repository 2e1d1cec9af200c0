/* Makes snapshots of templates: boots once and keeps the result.
 *
 * A template is booted with given numbers of CPUs and MB of memory. When its agent is ready and the
 * guest has settled, the microVM is saved into snapshots/<cpus>c-<mem>m of the template's
 * directory. Sandboxes are restored from there. Only sandboxes of which just the disks were kept
 * boot again, and those that are asked to. */
#ifndef SANDBOX_PREPARE_H
#define SANDBOX_PREPARE_H

#include <stdint.h>

#include "base/error.h"
#include "image/home.h"
#include "image/kernel_store.h"
#include "image/progress.h"
#include "image/template.h"
#include "sandbox/boot.h"
#include "sandbox/launch.h"
#include "sandbox/start_follow.h"

enum {
	PREPARE_BOOT_S = BOOT_S,
	PREPARE_READY_S = 600,
	PREPARE_WARM_S = 900,
	PREPARE_SETTLE_S = 10,
	PREPARE_CMDLINE_MAX = 512
};

/* A file in a template's directory: the facts (vmm/cpu_model.h) that limit its CPU. */
#define PREPARE_BASELINE "cpu-baseline"
/* Another: PEM of authorities that the guest trusts before its entry starts (trust_bundle.h). */
#define PREPARE_TRUST "trust.pem"

/* A phase: no program waits in the snapshot; the line says why. */
#define PREPARE_NOT_WARM "not warm"

/* Writes the kernel's command line for our guests. */
void prepare_cmdline(char out[PREPARE_CMDLINE_MAX]);

struct prepare_options {
	int template_fd;  /* of the template, also while it is being built; borrowed */
	const char *name; /* for messages */
	enum image_kind kind;
	unsigned deltas; /* of the image */
	/* Start and ready commands, user, env. An ext4 image that is smaller than disk_mb grows to
	 * that before the snapshot. */
	const struct image_config *config;
	const struct kernel *kernel;
	uint32_t cpus, memory_mb;
	const struct start_watch *start; /* is told of the two commands; the start command must
					  * not fail then. Or NULL */
};

/* Makes the snapshot unless it exists: a child of it must answer, and its ready command succeed.
 * Waits while another process makes the same one. What a
 * failure or kill leaves behind, the next call removes. Errors are the guest's: ERROR_BAD_IMAGE
 * when the image lacks what it needs, ERROR_SANDBOX when it panicked, ERROR_TIMEOUT when it never
 * answered, ERROR_HOST_SLOW where booting is hopeless. */
int prepare_snapshot(const struct prepare_options *o, const struct progress *p, struct error *e);

/* Provides the agent's binary and a kernel for it. */
int prepare_kernel(const struct home *h, const char *kernel, const char *modules,
	const struct progress *p, struct kernel *ret, struct error *e);

/* What a template may have beside its image. All may be NULL or 0. */
struct prepare_more {
	const char *baseline; /* facts as text that limit its CPU; NULL: only this host does */
	const char *key;      /* what template_reuse finds it by */
	const char *trust;    /* PEM, for PREPARE_TRUST */
	uint32_t disk_mb;     /* that the root disk has at least; at most SANDBOX_DISK_MB_MAX */
	const struct start_watch *start; /* of prepare_options */
};

/* Makes a whole template: boots the image `name` at its own sizes and replaces an older
 * template. */
int prepare_template(const struct home *h, const char *name, const struct kernel *kernel,
	const struct prepare_more *more, const struct progress *p, struct error *e);

#endif
