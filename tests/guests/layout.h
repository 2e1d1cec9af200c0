/* Numbers that the guests (assembler and C) and the harness agree on. */
#ifndef GUESTS_LAYOUT_H
#define GUESTS_LAYOUT_H

#define GUEST_CPUS	    4
#define GUEST_KERNEL_STACKS 0x102000 /* a page for each CPU */
#define GUEST_PORT_MAP	    0x108000
#define GUEST_TRAMPOLINE    0x8000 /* where other CPUs start, in real mode */
#define GUEST_MAILBOX	    0x30000

/* Written to port 0x600: how a test ended. */
#define GUEST_PASSED	0x21
#define GUEST_FAILED	0x22
#define GUEST_SKIPPED	0x23
#define GUEST_EXCEPTION 0x24

#ifndef __ASSEMBLER__
#include <stdint.h>

/* A page that guest and harness both look at. The guest announces a stage, the harness answers. */
struct mailbox {
	volatile uint32_t stage;  /* of the guest */
	volatile uint32_t answer; /* of the harness: goes on when it equals the stage */
	volatile uint64_t value;  /* an argument either way */
	volatile uint32_t beat;	  /* counts while the guest works */
};
#endif

#endif
