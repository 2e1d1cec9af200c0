/* Shared by rules.c, rules_parse.c and rules_judge.c. */
#ifndef RULES_RULES_INTERNAL_H
#define RULES_RULES_INTERNAL_H

#include "rules/rules.h"

enum rules_host_kind { RULES_EXACT, RULES_BELOW, RULES_ANY_HOST };

struct rules_host {
	enum rules_host_kind kind;
	char *text; /* RULES_BELOW: from the dot on; RULES_ANY_HOST: NULL */
	size_t bytes;
};

#endif
