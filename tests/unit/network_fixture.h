/* What tests of networks make their policies of. */
#ifndef TESTS_NETWORK_FIXTURE_H
#define TESTS_NETWORK_FIXTURE_H

#include "test.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/network_floor.h"

static json_t *parsed(const char *text)
{
	json_t *v = text ? json_loads(text, 0, NULL) : NULL;

	assert_true(v || !text);
	return v;
}

static struct network_floor *floor_new(void)
{
	struct network_floor *f = network_floor_new();

	assert_non_null(f);
	return f;
}

static struct network_floor *floor_of(const char *text)
{
	struct network_floor *f = floor_new();
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL, *word = strtok_r(copy, " ", &save);
	struct error e = {0};

	assert_int_equal(network_floor_set_mode(f, word, &e), 0);
	while ((word = strtok_r(NULL, " ", &save)))
		if (network_floor_allow(f, word, &e) < 0)
			fail_msg("%s", e.message);
	return f;
}

#endif
