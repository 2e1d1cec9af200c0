#include "cli/components.h"

#include "base/cleanup.h"

const struct component components[] = {
#include "cli/component_table.h"
};

const size_t component_count = ARRAY_SIZE(components);
