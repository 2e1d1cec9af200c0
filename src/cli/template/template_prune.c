/* `mayfly template prune`: frees what builds keep for later builds. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "base/str.h"
#include "build/cache_mount.h"
#include "build/step_cache.h"
#include "cli/json.h"
#include "cli/template/template.h"
#include "image/home.h"
#include "image/workdir.h"

struct prune_options {
	struct cli_common common;
	uint64_t keep;
};

static int say(const struct prune_options *o, const struct step_cache_usage *u, struct error *e)
{
	char freed[16], left[16];

	if (o->common.json)
		return json_print(
			json_pack("{s:I, s:I, s:I, s:I}", "removed", (json_int_t)u->removed,
				"freed_bytes", (json_int_t)u->freed_bytes, "entries",
				(json_int_t)u->entries, "bytes", (json_int_t)u->bytes),
			e);
	printf("%llu steps removed, %s; %llu left, %s\n", (unsigned long long)u->removed,
		str_format_bytes(u->freed_bytes, freed), (unsigned long long)u->entries,
		str_format_bytes(u->bytes, left));
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct prune_options *o = values;
	struct step_cache_usage u;
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0) {
		workdir_sweep(home.area_fd[HOME_IMAGES]);
		workdir_sweep(home.area_fd[HOME_TEMPLATES]);
		r = step_cache_trim(&home, o->keep, &u, e);
		u.freed_bytes += cache_mounts_trim(&home, o->keep);
	}
	if (r == 0)
		r = say(o, &u, e);
	home_close(&home);
	return r;
}

static const struct option_spec options[] = {
	{"keep", 0, OPTION_BYTES, "SIZE",
		"keep the most recently used, up to this size (default: nothing)",
		offsetof(struct prune_options, keep), 0, STEP_CACHE_BYTES_MAX, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_template_prune = {
	.name = "prune",
	.arguments = "",
	.summary = "Remove the cache of builds from Dockerfiles",
	.description = "Templates stay, and so do parts of the cache that a build is using. Builds "
		       "themselves remove\n"
		       "the least recently used parts beyond 16 GiB, and what killed builds left.",
	.options = options,
	.values_bytes = sizeof(struct prune_options),
	.run = run,
};
