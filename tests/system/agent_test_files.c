#include "agent_test.h"
const struct test file_tests[] = {{NULL, NULL}};
