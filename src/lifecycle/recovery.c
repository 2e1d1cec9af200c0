#include "lifecycle/recovery.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/meter.h"
#include "image/workdir.h"
#include "lifecycle/freeze.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/revocation.h"
#include "network/egress.h"
#include "network/reports.h"
#include "sandbox/sandbox_dir.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

struct tally {
	struct fleet *fleet;
	unsigned adopted, paused, crashed, killed, stray, unknown, aside;
};

static char *text_of(const json_t *object, const char *key, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(object, key));

	return strdup(s ? s : otherwise);
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static char *copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

static int fill(struct instance *i, const struct store_sandbox *sb)
{
	json_t *extra = sb->extra_json ? json_loads(sb->extra_json, 0, NULL) : NULL;

	if (strlen(sb->id) >= sizeof(i->sandbox.id)) {
		json_decref(extra);
		return -EINVAL;
	}
	strcpy(i->sandbox.id, sb->id); /* checked above */
	i->sandbox.pid = sb->vmm_pid;
	i->vmm_start = sb->vmm_start;
	i->sandbox.template = strdup(sb->template_alias ? sb->template_alias : sb->template_id);
	(void)snprintf(i->template.id, sizeof(i->template.id), "%s", sb->template_id); /* 20 */
	instance_snapshot_of(sb, i->snapshot_id);
	i->sandbox.user = text_of(extra, "user", "root");
	i->sandbox.workdir = text_of(extra, "workdir", "");
	i->sandbox.network = text_of(extra, "network", "");
	i->freeze.left_ns = number_of(extra, STORE_EXTRA_FROZEN_LEFT);
	i->freeze.end_ns = number_of(extra, STORE_EXTRA_FROZEN_END);
	if (json_object_get(extra, STORE_EXTRA_FILES_OUTSIDE)) /* else nothing is recorded */
		i->files_outside_json =
			json_dumps(json_object_get(extra, STORE_EXTRA_FILES_OUTSIDE), JSON_COMPACT);
	json_decref(extra);
	i->sandbox.cpus = sb->cpus;
	i->sandbox.memory_bytes = sb->memory_bytes;
	i->sandbox.disk_bytes = sb->disk_bytes;
	i->key_id = strdup(sb->key_id);
	i->envd_token = copy(sb->envd_token);
	i->traffic_token = copy(sb->traffic_token);
	i->network_json = copy(sb->network_json);
	i->network_names_json = copy(sb->network_names_json);
	i->network_generation = sb->network_generation;
	i->secrets_json = copy(sb->secrets_json);
	i->authority = copy(sb->authority);
	i->iam_json = copy(sb->iam_json);
	i->internet = sb->internet;
	i->env_json = copy(sb->env_json);
	i->started_ns = sb->resumed_ns;
	return i->sandbox.template && i->sandbox.user && i->sandbox.workdir && i->sandbox.network &&
			       i->key_id && !i->envd_token == !sb->envd_token &&
			       !i->traffic_token == !sb->traffic_token &&
			       !i->network_json == !sb->network_json &&
			       !i->network_names_json == !sb->network_names_json &&
			       !i->secrets_json == !sb->secrets_json &&
			       !i->authority == !sb->authority && !i->iam_json == !sb->iam_json
		       ? 0
		       : -ENOMEM;
}

/* True also for a zombie: not every first process of a container reaps its children. */
static bool has_ended(pid_t pid)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Whether its lock is held and its process is the one that we started. */
static bool is_alive(struct fleet *f, const struct store_sandbox *sb)
{
	_cleanup_close_ int fd = sandbox_open_dir(&f->dirs, sb->id, NULL);

	return fd >= 0 && vmm_dir_is_live(fd) == 1 && sb->vmm_pid > 0 && sb->vmm_start &&
	       process_start_ticks(sb->vmm_pid) == sb->vmm_start && !has_ended(sb->vmm_pid);
}

/* If this fails, the sandbox keeps the limits that it has. */
static void renew_limits(struct fleet *f, const struct store_sandbox *sb, int dirfd)
{
	struct error e = {0};

	if (sandbox_dirs_renew_cgroup(&f->dirs, sb->id, dirfd, sb->cpus, sb->memory_bytes, &e) < 0)
		log_error("%s sandbox=%s", e.message, sb->id);
}

/* Only its record tells. */
static enum jail_kind jail_of(const struct instance *i)
{
	struct sandbox_record record = {0};
	enum jail_kind kind = JAIL_OFF;

	if (sandbox_record_read(i->sandbox.dirfd, i->sandbox.id, &record, NULL) == 0)
		kind = record.jail;
	sandbox_record_done(&record);
	return kind;
}

static int adopt(struct fleet *f, const struct store_sandbox *sb, struct error *e)
{
	struct instance *i = instance_new(f);
	int r = i ? fill(i, sb) : -ENOMEM;

	if (r < 0) {
		(void)error_set(e, ERROR_INTERNAL, -r, "cannot read a sandbox's row");
	} else {
		i->sandbox.dirfd = sandbox_open_dir(&f->dirs, sb->id, e);
		r = i->sandbox.dirfd < 0 ? i->sandbox.dirfd : meter_resume(i, e);
		if (r == 0)
			r = instance_watch(i, e);
	}
	if (r < 0) {
		if (i)
			instance_free(i);
		return r;
	}
	renew_limits(f, sb, i->sandbox.dirfd);
	i->revoked = revocation_of(f, sb->key_id);
	i->sandbox.jail = jail_of(i);
	i->promised = (struct sandbox_sizes){sb->cpus, sb->memory_bytes, sb->disk_bytes};
	quota_take(&f->quota, &i->promised);
	(void)unlinkat(i->sandbox.dirfd, BACKEND_UNKNOWN, 0);	      /* most often not there */
	(void)backend_mark_as(i->sandbox.dirfd, BACKEND_KNOWN, NULL); /* for the next daemon */
	instance_enter(i);
	if (f->options.backend->network) {
		freeze_recover(i);
		egress_begin(i);
	}
	reports_begin(i);
	return 0;
}

/* Ends what may be left of it, then removes row and directory. */
static void remove_sandbox(
	struct fleet *f, const struct store_sandbox *sb, enum store_event_type type)
{
	struct error e = {0};

	if (f->options.backend->end(&f->dirs, sb->id, NULL, sb->vmm_pid, &e) < 0) {
		/* its row stays, so the next start tries again */
		log_error("%s sandbox=%s", e.message, sb->id);
		return;
	}
	if (sb->state != STORE_KILLING) { /* else the event was stored with it */
		metrics_add(METRIC_ENDS, store_event_type_name(type), NULL, 1);
		event_note(f, sb->id, sb->key_id, sb->template_id, type, NULL);
	}
	if (store_sandbox_delete(f->store, sb->id, &e) < 0)
		log_error("cannot remove a sandbox's row: %s sandbox=%s", e.message, sb->id);
}

static void back_to_running(struct fleet *f, const struct store_sandbox *sb)
{
	const struct store_sandbox row = {.state = STORE_RUNNING};
	struct error e = {0};

	if (sb->state != STORE_RUNNING && store_sandbox_update(f->store, sb->id, STORE_ANY_STATE,
						  STORE_SET_STATE, &row, NULL, &e) < 0)
		log_error("%s sandbox=%s", e.message, sb->id);
}

static bool has_paused_state(const struct fleet *f, const char *id)
{
	return file_exists(f->home.area_fd[HOME_PAUSED], id);
}

static void forget_paused_state(const struct fleet *f, const char *id)
{
	int r = workdir_remove(f->home.area_fd[HOME_PAUSED], id);

	if (r < 0 && r != -ENOENT)
		log_error("cannot remove an old state: %s sandbox=%s", strerror(-r), id);
}

/* Marks a sandbox as paused whose state was complete when daemon and microVM died. */
static void complete_pause(struct fleet *f, const struct store_sandbox *sb)
{
	const struct store_sandbox row = {.state = STORE_PAUSED, .end_ns = clock_realtime_ns()};
	struct error e = {0};

	if (store_sandbox_update(f->store, sb->id, STORE_STATE_BIT(STORE_PAUSING),
		    STORE_SET_STATE | STORE_SET_END | STORE_SET_VMM, &row, NULL, &e) < 0)
		log_error("%s sandbox=%s", e.message, sb->id);
}

/* Ends processes of a paused sandbox that are left of a resume or an end that was cut short. */
static void end_remains(struct fleet *f, const struct store_sandbox *sb)
{
	_cleanup_close_ int fd = sandbox_open_dir(&f->dirs, sb->id, NULL);
	struct error e = {0};

	if (fd >= 0 && f->options.backend->end(&f->dirs, sb->id, NULL, sb->vmm_pid, &e) < 0)
		log_error("%s sandbox=%s", e.message, sb->id);
}

/* Completes a snapshot or pause that was cut short, or removes it as if it had never begun. */
static int settle(struct fleet *f, const struct store_sandbox *sb, struct error *e)
{
	_cleanup_close_ int fd = -1;

	if (sb->state == STORE_RUNNING || !f->options.backend->settle)
		return 0;
	fd = sandbox_open_dir(&f->dirs, sb->id, e);
	return fd < 0 ? fd : f->options.backend->settle(fd, e);
}

static bool is_transient(const struct store_sandbox *sb)
{
	json_t *extra = sb->extra_json ? json_loads(sb->extra_json, 0, NULL) : NULL;
	bool transient = json_is_true(json_object_get(extra, STORE_EXTRA_TRANSIENT));

	json_decref(extra);
	return transient;
}

/* Returns false if only its kept state can come back; otherwise its processes go on. If something
 * cannot be settled now, for example on a full disk, its next pause or snapshot settles it. */
static bool recover_living(struct tally *t, const struct store_sandbox *sb)
{
	struct fleet *f = t->fleet;
	struct error e = {0}, why = {0};
	int r = settle(f, sb, &why);

	if (r < 0)
		log_error("cannot settle a sandbox: %s sandbox=%s", why.message, sb->id);
	if (r < 0 && sb->state == STORE_PAUSING && has_paused_state(f, sb->id))
		return false;
	if (adopt(f, sb, &e) < 0) {
		log_error("cannot adopt a sandbox: %s sandbox=%s", e.message, sb->id);
		return false;
	}
	forget_paused_state(f, sb->id);
	back_to_running(f, sb);
	t->adopted++;
	return true;
}

/* For a sandbox that runs although its row says otherwise: an older database was restored. The row
 * has the sandbox as paused or being paused, or names an earlier process, and there is no paused
 * state. Sets its deadline as if it was resumed now. */
static bool recover_resumed(struct tally *t, const struct store_sandbox *sb)
{
	struct fleet *f = t->fleet;
	_cleanup_close_ int fd = sandbox_open_dir(&f->dirs, sb->id, NULL);
	struct sandbox_record record = {0};
	struct store_sandbox row = *sb;
	struct error e = {0};

	if (fd < 0 || has_paused_state(f, sb->id) ||
		sandbox_record_read(fd, sb->id, &record, NULL) < 0)
		return false;
	row.state = STORE_RUNNING;
	row.vmm_pid = record.vmm_pid;
	row.vmm_start = record.vmm_start;
	row.resumed_ns = clock_realtime_ns();
	row.end_ns = row.resumed_ns + row.timeout_ns;
	sandbox_record_done(&record);
	if (!is_alive(f, &row) || !recover_living(t, &row))
		return false;
	if (store_sandbox_update(f->store, sb->id, STORE_ANY_STATE,
		    STORE_SET_STATE | STORE_SET_VMM | STORE_SET_RESUMED | STORE_SET_END, &row, NULL,
		    &e) < 0)
		log_error("%s sandbox=%s", e.message, sb->id);
	log_warn("a sandbox was resumed after what the database knows of it: it goes on "
		 "sandbox=%s",
		sb->id);
	return true;
}

static int recover_row(void *arg, const struct store_sandbox *sb)
{
	struct tally *t = arg;
	struct fleet *f = t->fleet;

	if (sb->state == STORE_PAUSED) {
		if (recover_resumed(t, sb))
			return 0;
		end_remains(f, sb);
		t->paused++;
		return 0;
	}
	/* nobody waits for its answer any more */
	if (sb->state == STORE_KILLING || is_transient(sb)) {
		forget_paused_state(f, sb->id); /* its owner has given it up */
		remove_sandbox(f, sb, STORE_EVENT_KILLED);
		t->killed++;
		return 0;
	}
	if (is_alive(f, sb) && recover_living(t, sb))
		return 0;
	if (sb->state == STORE_PAUSING && has_paused_state(f, sb->id)) {
		end_remains(f, sb);
		complete_pause(f, sb);
		t->paused++;
		return 0;
	}
	if (recover_resumed(t, sb))
		return 0;
	remove_sandbox(f, sb, STORE_EVENT_CRASHED);
	t->crashed++;
	return 0;
}

/* --- directories without a row --- */

static bool is_ours(int fd)
{
	return file_exists(fd, BACKEND_MARK);
}

/* Whether it had a row and runs. Then its client was told of it, so it is not ours to end. */
static bool is_lost(int fd)
{
	return file_exists(fd, BACKEND_KNOWN) && vmm_dir_is_live(fd) == 1;
}

static void leave(struct tally *t, int fd, const char *id)
{
	(void)backend_mark_as(
		fd, BACKEND_UNKNOWN, NULL); /* for mayfly doctor; the log has it too */
	log_warn("the database does not know a sandbox that runs: it goes on sandbox=%s", id);
	t->unknown++;
}

static void check_directory(struct tally *t, const char *id)
{
	_cleanup_close_ int fd = sandbox_open_dir(&t->fleet->dirs, id, NULL);
	struct sandbox_record record = {0};
	struct store_sandbox *row = NULL;
	struct error e = {0};

	if (fd < 0 || !is_ours(fd))
		return;
	if (store_sandbox_get(t->fleet->store, id, &row, &e) != -ENOENT) {
		store_sandbox_free(row);
		return;
	}
	error_clear(&e);
	if (is_lost(fd)) {
		leave(t, fd, id);
		return;
	}
	(void)sandbox_record_read(fd, id, &record, NULL); /* it is optional */
	if (t->fleet->options.backend->end(&t->fleet->dirs, id, NULL, record.vmm_pid, &e) < 0)
		log_error("%s sandbox=%s", e.message, id);
	sandbox_record_done(&record);
	t->stray++;
}

static void check_directories(struct tally *t)
{
	DIR *dir = file_open_dir(t->fleet->dirs.fd, ".");
	struct dirent *de;

	if (!dir)
		return;
	while ((de = readdir(dir)))
		if (de->d_name[0] == 'i')
			check_directory(t, de->d_name);
	(void)closedir(dir); /* read-only */
}

/* --- states without a row --- */

static bool is_kept(const struct fleet *f, enum home_area area, const char *name)
{
	struct store_sandbox *row = NULL;
	struct store_snapshot sn;
	struct error e = {0};
	bool kept;

	if (area == HOME_SNAPSHOTS)
		return store_snapshot_find(f->store, NULL, name, "", &sn, &e) == 0 ||
		       e.code != ERROR_NOT_FOUND;
	if (store_sandbox_get(f->store, name, &row, &e) < 0)
		return e.code != ERROR_NOT_FOUND;
	kept = row->state == STORE_PAUSED;
	store_sandbox_free(row);
	return kept;
}

/* Moves a state without a row aside. Either no client was told of it, or an older database was
 * restored. */
static void move_aside(struct tally *t, enum home_area area, const char *name)
{
	int r = aside_put(&t->fleet->home, area, name);

	t->aside++;
	if (r < 0)
		log_error("cannot move aside what the database does not know: %s %s/%s",
			strerror(-r), home_area_name(area), name);
	else
		log_warn("moved aside what the database does not know: %s/%s", home_area_name(area),
			name);
}

static void check_states(struct tally *t, enum home_area area)
{
	int area_fd = t->fleet->home.area_fd[area];
	char **names = NULL;

	workdir_sweep(area_fd);
	if (workdir_list(area_fd, &names) < 0)
		return;
	for (char **p = names; *p; p++)
		if (!is_kept(t->fleet, area, *p))
			move_aside(t, area, *p);
	workdir_list_free(names);
}

int instances_recover(struct fleet *f, struct error *e)
{
	struct tally t = {.fleet = f};
	int r = store_sandbox_each(f->store, true, recover_row, &t, e);

	if (r < 0)
		return r;
	check_directories(&t);
	sandbox_dirs_collect(&f->dirs);
	check_states(&t, HOME_PAUSED);
	check_states(&t, HOME_SNAPSHOTS);
	if (t.adopted || t.paused || t.crashed || t.killed || t.stray)
		log_warn("found %u running and %u paused sandboxes; cleaned up %u that had died, "
			 "%u being killed and %u that nobody knew of",
			t.adopted, t.paused, t.crashed, t.killed, t.stray);
	if (t.unknown)
		log_error(
			"the database does not know %u sandboxes that run. If an older database "
			"was "
			"restored, see docs/operations.md; mayfly ps lists them, mayfly kill ends "
			"them",
			t.unknown);
	if (t.aside)
		log_error(
			"the database does not know %u paused sandboxes or snapshots: they are in "
			"%s/aside for some days. If an older database was restored, see "
			"docs/operations.md",
			t.aside, f->home.path);
	return 0;
}
