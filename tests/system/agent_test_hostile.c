#include "agent_test.h"
const struct test hostile_tests[] = {{NULL, NULL}};
