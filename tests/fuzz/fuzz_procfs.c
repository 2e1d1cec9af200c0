/* What the agent reads in /proc: mount points and processes may be named by anybody in the guest.
 */
#include "fuzz.h"

#include <errno.h>

#include "agent/procfs.h"

static void try_mounts(const char *given)
{
	char *text = strdup(given);
	struct mounts m;
	int r;

	check(text);
	r = mounts_parse(text, &m);
	check(r == 0 || (r == -E2BIG && !m.count));
	for (size_t i = 0; i < m.count; i++) {
		check(m.list[i].path[0] == '/');
		/* what holds files is on the way to itself */
		check(!m.list[i].holds_files || mounts_lead_to_files(&m, m.list[i].path));
		(void)mounts_hold_files(&m, m.list[i].path); /* ends */
	}
	check(!mounts_hold_files(&m, "") || m.count);
	mounts_done(&m);
	free(text);
}

static void try_stat(const char *given)
{
	char *text = strdup(given);
	size_t n = strlen(given);
	struct task_stat st;

	check(text);
	if (task_stat_parse(text, &st) == 0)
		check(st.name > text && st.name + strlen(st.name) < text + n);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);

	try_mounts(text);
	try_stat(text);
	free(text);
	return 0;
}
