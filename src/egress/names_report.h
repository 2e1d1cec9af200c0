/* Tells the daemon which addresses stand for which names, so that the next worker has them, too.
 * The message is the whole table: {"names": {"api.example.com": "198.18.0.1"}}, oldest first. */
#ifndef EGRESS_NAMES_REPORT_H
#define EGRESS_NAMES_REPORT_H

#include "egress/context.h"

enum { NAMES_REPORT_MS = 100 };

/* Sends the table, at most once in NAMES_REPORT_MS. So a guest that asks for many names does not
 * keep the daemon busy. */
void names_report(struct context *c);

#endif
