/* Adds lines to the report of `mayfly doctor`. */
#include "cli/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>

struct doctor_check *doctor_add(
	struct doctor *d, const char *name, enum doctor_status status, const char *fmt, ...)
{
	struct doctor_check *c = &d->checks[d->count];
	va_list ap;

	if (d->count < DOCTOR_CHECKS_MAX - 1) /* one too many shows as the last one */
		d->count++;
	c->name = name;
	c->status = status;
	c->remedy[0] = '\0';
	va_start(ap, fmt);
	(void)vsnprintf(c->text, sizeof(c->text), fmt, ap); /* truncation is acceptable */
	va_end(ap);
	return c;
}

void doctor_set_remedy(struct doctor_check *c, const char *text)
{
	(void)snprintf(c->remedy, sizeof(c->remedy), "%s", text); /* truncation is acceptable */
}
