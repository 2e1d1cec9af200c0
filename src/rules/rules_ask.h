/* The member `ask` of a rule that asks a person, or whose budget does
 * (docs/consent.md#who-decides): {"who": "key", "links": "once"}. Only the daemon uses it; workers
 * ask, whoever decides. */
#ifndef RULES_RULES_ASK_H
#define RULES_RULES_ASK_H

#include <jansson.h>
#include <stdbool.h>

/* Who decides. The operator always may. A larger value admits fewer. */
enum rules_ask_who {
	RULES_ASK_KEY,	    /* the key that the sandbox belongs to, and links */
	RULES_ASK_PERSON,   /* links, but no key */
	RULES_ASK_OPERATOR, /* nobody else */
	RULES_ASK_WHO_,
};

/* What links may do. Likewise. */
enum rules_ask_links {
	RULES_ASK_LONGER, /* decide for longer, too */
	RULES_ASK_ONCE,
	RULES_ASK_NO_LINKS,
	RULES_ASK_LINKS_,
};

struct rules_ask {
	enum rules_ask_who who;
	enum rules_ask_links links;
};

/* Reads the member of a rule; `otherwise` is who decides if it does not say. Returns NULL, or what
 * is wrong (static). */
const char *rules_ask_read(const json_t *rule, enum rules_ask_who otherwise, struct rules_ask *ret);

/* "key", "person", "operator"; "longer", "once", "no". */
const char *rules_ask_who_word(enum rules_ask_who who);
const char *rules_ask_links_word(enum rules_ask_links links);

/* Reads the words of a question that is stored. Without them a key decides, and links once,
 * also for questions from before there were words. Unknown ones admit only the operator. */
struct rules_ask rules_ask_of(const char *who, const char *links);

#endif
