/* `mayfly doctor`: prints the checks. */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/doctor/doctor_egress.h"
#include "cli/json.h"
#include "vmm/cpu_model.h"
#include "vmm/kvm.h"

static const char *status_word(enum doctor_status s)
{
	return s == DOCTOR_OK ? "ok" : s == DOCTOR_WARN ? "warn" : "fail";
}

static json_t *to_json(const struct doctor *d)
{
	json_t *checks = json_array();

	for (unsigned i = 0; i < d->count; i++) {
		const struct doctor_check *c = &d->checks[i];

		/* a missing line shows as a missing line */
		(void)json_array_append_new(
			checks, json_pack("{s:s, s:s, s:o, s:o}", "name", c->name, "status",
					status_word(c->status), "text", json_text(c->text),
					"remedy", json_text(c->remedy)));
	}
	return json_pack("{s:b, s:s, s:o}", "ready", doctor_worst(d) != DOCTOR_FAIL, "status",
		status_word(doctor_worst(d)), "checks", checks);
}

static void print(const struct doctor *d)
{
	for (unsigned i = 0; i < d->count; i++) {
		const struct doctor_check *c = &d->checks[i];

		printf("%-5s %-11s %s%s%s\n", status_word(c->status), c->name, c->text,
			*c->remedy ? ": " : "", c->remedy);
	}
	printf("%s\n", doctor_worst(d) == DOCTOR_FAIL ? "\nThis host cannot run sandboxes."
						      : "\nThis host can run sandboxes.");
}

struct doctor_options {
	struct cli_common common;
	bool cpu_facts, egress;
	const char *template;
};

/* What `template build --cpu-baseline` reads. */
static int print_cpu_facts(struct error *e)
{
	_cleanup_close_ int kvm_fd = kvm_open(e);
	struct buf text = BUF_INIT(CPU_FACTS_TEXT_MAX);
	struct cpu_facts f;
	int r = kvm_fd < 0 ? kvm_fd : cpu_facts_here(kvm_fd, &f, e);

	if (r == 0 && cpu_facts_print(&f, &text) < 0)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		printf("%.*s", (int)buf_len(&text), (const char *)buf_head(&text));
	buf_done(&text);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct doctor_options *o = values;
	struct doctor d;
	int r = cli_no_arguments(argc, argv, e);

	if (r < 0)
		return r;
	if (o->cpu_facts)
		return print_cpu_facts(e);
	if (o->egress)
		return doctor_egress(o->template ? o->template : "base", o->common.json, e);
	doctor_run(&d);
	if (o->common.json)
		r = json_print(to_json(&d), e);
	else
		print(&d);
	if (r < 0)
		return r;
	return doctor_worst(&d) == DOCTOR_FAIL ? error_exit_status(ERROR_HOST) : 0;
}

static const struct option_spec options[] = {
	{"cpu-facts", 0, OPTION_FLAG, NULL,
		"print what KVM offers guests here, for template build --cpu-baseline",
		offsetof(struct doctor_options, cpu_facts), 0, 0, false},
	{"egress", 0, OPTION_FLAG, NULL,
		"try in a sandbox of the daemon what its network must not reach",
		offsetof(struct doctor_options, egress), 0, 0, false},
	{"template", 'T', OPTION_STRING, "NAME", "of that sandbox (base)",
		offsetof(struct doctor_options, template), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "Say whether this host can run sandboxes, and what to do where it cannot",
	.description =
		"Every line is ok, warn (sandboxes run, something around them will not) or "
		"fail (no sandbox\nruns). The exit status is 0 when sandboxes can run, else 120.",
	.options = options,
	.values_bytes = sizeof(struct doctor_options),
	.run = run,
};
