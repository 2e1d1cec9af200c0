/* The checks of `mayfly doctor`. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_WARN, /* sandboxes run, but something around them does not */
	DOCTOR_FAIL, /* no sandbox can run */
};

enum { DOCTOR_CHECKS_MAX = 32, DOCTOR_TEXT_MAX = 512 };

struct doctor_check {
	const char *name;
	enum doctor_status status;
	char text[DOCTOR_TEXT_MAX];
	char remedy[DOCTOR_TEXT_MAX]; /* "" if there is nothing to do */
};

struct doctor {
	struct doctor_check checks[DOCTOR_CHECKS_MAX];
	unsigned count;
};

/* Adds a line, formatted as by printf. There is room for all checks. */
struct doctor_check *doctor_add(struct doctor *d, const char *name, enum doctor_status status,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void doctor_set_remedy(struct doctor_check *c, const char *text);

/* Runs all checks. Takes well below a second and changes nothing. */
void doctor_run(struct doctor *d);

/* The worst status of all checks. */
enum doctor_status doctor_worst(const struct doctor *d);

#endif
