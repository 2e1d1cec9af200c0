/* Scope-bound clean-up: attributes, and the macros that move ownership out of a scope.
 *
 * A variable marked _cleanup_free_ (or _cleanup_close_) is released when its scope ends, by
 * whatever path. TAKE_PTR and TAKE_FD return the value and leave NULL or -1 behind. So success
 * paths transfer ownership, and every failure path releases it. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void cleanup_free_p(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_p(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* a failing close cannot be handled here */
}

static inline void cleanup_fclose_p(FILE **f)
{
	if (*f)
		(void)fclose(*f); /* writers that care call fclose themselves and check it */
}

#define _cleanup_free_	 _cleanup_(cleanup_free_p)
#define _cleanup_close_	 _cleanup_(cleanup_close_p)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose_p)

#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) *pp_ = &(p);                                                         \
		__typeof__(p) v_ = *pp_;                                                           \
		*pp_ = NULL;                                                                       \
		v_;                                                                                \
	})

#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int *pf_ = &(fd);                                                                  \
		int f_ = *pf_;                                                                     \
		*pf_ = -1;                                                                         \
		f_;                                                                                \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
