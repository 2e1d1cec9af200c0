#include "cli/doctor/doctor_libraries.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/components.h"
#include "io/child.h"

enum { PACKAGES_MAX = 64, VERSION_MAX = 128, QUERY_WORDS = 4 };

/* What a static program has of a host's package, once for each package. */
struct wanted {
	const struct component *of[PACKAGES_MAX];
	size_t count;
};

static bool is_wanted(const struct wanted *w, const struct component *c)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->of[i]->host_package, c->host_package) == 0)
			return true;
	return false;
}

static void collect(struct wanted *w)
{
	for (size_t i = 0; i < component_count && w->count < PACKAGES_MAX; i++) {
		const struct component *c = &components[i];

		if (c->is_static && c->host_package && !is_wanted(w, c))
			w->of[w->count++] = c;
	}
}

/* Lines of "PACKAGE VERSION". Packages that are not installed have none, and dpkg-query fails. */
static void ask_host(const struct wanted *w, struct buf *ret)
{
	const char *argv[QUERY_WORDS + PACKAGES_MAX] = {
		"dpkg-query", "-W", "-f=${Package} ${Version}\\n"};
	struct child_options o = {.argv = argv, .timeout_ns = 10 * NS_PER_S};

	for (size_t i = 0; i < w->count; i++)
		argv[QUERY_WORDS - 1 + i] = w->of[i]->host_package;
	(void)child_run(&o, ret, NULL); /* what it printed counts */
	if (buf_add_u8(ret, 0) < 0)
		buf_clear(ret);
}

/* The version of a package in these lines. */
static bool find_version(const char *lines, const char *package, char ret[VERSION_MAX])
{
	size_t n = strlen(package);

	for (const char *p = lines; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		size_t length = strcspn(p, "\n");

		if (length <= n || strncmp(p, package, n) != 0 || p[n] != ' ' ||
			length - n - 1 >= VERSION_MAX)
			continue;
		memcpy(ret, p + n + 1, length - n - 1);
		ret[length - n - 1] = '\0';
		return true;
	}
	return false;
}

static bool is_newer(const char *host, const char *linked)
{
	const char *argv[] = {"dpkg", "--compare-versions", host, "gt", linked, NULL};
	struct child_options o = {.argv = argv, .timeout_ns = 10 * NS_PER_S};

	return strcmp(host, linked) != 0 && strcmp(linked, "unknown") != 0 &&
	       child_run(&o, NULL, NULL) == 0;
}

void doctor_check_libraries(struct doctor *d)
{
	_cleanup_(buf_done) struct buf lines = BUF_INIT(CHILD_OUTPUT_MAX);
	_cleanup_(buf_done) struct buf old = BUF_INIT(DOCTOR_TEXT_MAX / 2);
	struct wanted w = {.count = 0};
	char version[VERSION_MAX];

	if (!child_program_exists("dpkg-query"))
		return;
	collect(&w);
	ask_host(&w, &lines);
	for (size_t i = 0; i < w.count && buf_len(&lines); i++) {
		const struct component *c = w.of[i];

		if (find_version((const char *)buf_head(&lines), c->host_package, version) &&
			is_newer(version, c->version))
			(void)buf_printf(&old, "%s%s %s (here: %s)", buf_len(&old) ? ", " : "",
				c->library, c->version, version); /* what does not fit is cut */
	}
	if (buf_len(&old) == 0)
		return (void)doctor_add(d, "libraries", DOCTOR_OK,
			"static programs have no older library than this host");
	doctor_set_remedy(doctor_add(d, "libraries", DOCTOR_WARN,
				  "static programs have older libraries than this host: %.*s",
				  (int)buf_len(&old), (const char *)buf_head(&old)),
		"install a newer Mayfly, or build it anew; then restart the daemon. Running "
		"sandboxes keep their old processes until they are paused and resumed, or end");
}
