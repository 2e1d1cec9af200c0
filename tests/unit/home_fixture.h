/* A home (image/home.h) in a directory of its own, for each test of a program. */
#ifndef TESTS_HOME_FIXTURE_H
#define TESTS_HOME_FIXTURE_H

#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "image/home.h"

static char home_dir[64];
static struct home home = HOME_INIT;

static inline int home_setup(void **state)
{
	struct error e = {0};

	(void)snprintf(home_dir, sizeof(home_dir), "/tmp/mayfly-home-XXXXXX"); /* fits */
	assert_non_null(mkdtemp(home_dir));
	return home_open(home_dir, &home, &e);
}

static inline int home_teardown(void **state)
{
	home_close(&home);
	return file_remove_tree(AT_FDCWD, home_dir);
}

#endif
