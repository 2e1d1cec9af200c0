#include "sandbox/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/cgroup.h"
#include "sandbox/console.h"
#include "sandbox/host.h"
#include "sandbox/identity.h"
#include "sandbox/launch.h"
#include "sandbox/probe.h"
#include "sandbox/sandbox_plan.h"
#include "vmm/kvm.h"

#define MIB (UINT64_C(1) << 20)

enum {
	OWN_ENV_COUNT = 3,
	PROBE_AFTER_MS = 3000, /* a guest this late may be on a host that is too slow */
	END_WAIT_MS = 500,     /* for the VMM's reason after the agent's connection broke */
	RETRY_MS = 10,	       /* while a booting guest has no agent yet */
};

struct sandbox {
	const struct sandbox_dirs *dirs;
	char id[SANDBOX_ID_BYTES];
	int dirfd;
	struct vmm *vmm;
	struct agent_conn *agent;
	struct sandbox_plan plan; /* for the identity; its files are closed after the launch */
	char **env;		  /* the whole environment, env_count strings */
	unsigned env_count;

	bool booted;
	bool deaf; /* nothing more can be sent to the agent */
	bool hello_done, ready;
	struct identity identity;
	bool probed;
	uint64_t begin_ns, ready_ns, ready_deadline_ns, retry_ns;
	bool ended;
	struct error end; /* the reason, once it has ended */
};

const char *sandbox_id(const struct sandbox *s)
{
	return s->id;
}

struct agent_conn *sandbox_agent(struct sandbox *s)
{
	return s->agent;
}

const char *sandbox_network(const struct sandbox *s)
{
	return s->plan.t.config.network;
}

int sandbox_dirfd(const struct sandbox *s)
{
	return s->dirfd;
}

bool sandbox_is_ready(const struct sandbox *s)
{
	return s->ready;
}

uint64_t sandbox_ready_ns(const struct sandbox *s)
{
	return s->ready ? s->ready_ns - s->begin_ns : 0;
}

void sandbox_print_log(const struct sandbox *s, unsigned lines, FILE *f)
{
	console_print(s->dirfd, lines, f);
}

/* --- identity --- */

static void free_env(struct sandbox *s)
{
	for (unsigned i = 0; i < s->env_count; i++)
		free(s->env[i]);
	free(s->env);
	s->env = NULL;
	s->env_count = 0;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n + 1) == 0;
}

/* Adds an entry. Later entries win. */
static int set_env(struct sandbox *s, const char *entry)
{
	char *copy = strdup(entry);

	if (!copy)
		return -ENOMEM;
	for (unsigned i = 0; i < s->env_count; i++)
		if (same_name(s->env[i], entry)) {
			free(s->env[i]);
			s->env[i] = copy;
			return 0;
		}
	s->env[s->env_count++] = copy;
	return 0;
}

static int set_env_pair(struct sandbox *s, const char *name, const char *value)
{
	_cleanup_free_ char *entry = str_printf("%s=%s", name, value);

	return entry ? set_env(s, entry) : -ENOMEM;
}

static int gather_env(struct sandbox *s, const struct sandbox_options *o, struct error *e)
{
	const struct image_config *c = &s->plan.t.config;
	int r;

	s->env = calloc(c->env_count + o->env_count + OWN_ENV_COUNT, sizeof(*s->env));
	r = s->env ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < c->env_count; i++)
		r = set_env(s, c->env[i]);
	/* names that programs made for E2B look for */
	if (r == 0)
		r = set_env_pair(s, "E2B_SANDBOX", "true");
	if (r == 0)
		r = set_env_pair(s, "E2B_SANDBOX_ID", s->id);
	if (r == 0)
		r = set_env_pair(s, "E2B_TEMPLATE_ID", s->plan.t.name);
	for (unsigned i = 0; r == 0 && i < o->env_count; i++)
		r = set_env(s, o->env[i]);
	return r < 0 ? error_set(e, ERROR_INTERNAL, -r, "out of memory") : 0;
}

static int queue_identity(struct sandbox *s, struct error *e)
{
	const struct identity_of of = {
		.hostname = s->id,
		.user = s->plan.t.config.user,
		.workdir = s->plan.t.config.workdir,
		.env = (const char *const *)s->env,
		.env_count = s->env_count,
		.disk_bytes = s->plan.grow ? s->plan.disk_bytes : 0,
	};

	return identity_queue(&s->identity, s->agent, &of, e);
}

static int take_hello(struct sandbox *s, const struct agent_hello_reply *h, struct error *e)
{
	int r = identity_take_hello(&s->identity, h, s->plan.t.name, e);

	s->hello_done = r == 0;
	return r;
}

/* If the time was queued again, the next look for events sends it. */
static int take_identity(struct sandbox *s, const struct agent_identity_reply *m, struct error *e)
{
	int r = identity_take(&s->identity, s->agent, m, e);

	if (r > 0) {
		s->ready = true;
		s->ready_ns = clock_monotonic_ns();
	}
	return r < 0 ? r : 0;
}

/* --- why it ended --- */

/* True if the reason is that KVM here is slower than any guest can bear. */
static bool host_is_slow(struct sandbox *s, struct error *e)
{
	_cleanup_close_ int kvm_fd = -1;
	struct probe p;

	if (s->ready || s->probed)
		return false;
	s->probed = true;
	kvm_fd = kvm_open(NULL);
	if (kvm_fd < 0 || probe_speed(kvm_fd, &p, NULL) < 0)
		return false;
	/* 0: this host was too busy to measure anything, which is no reason */
	return p.mips > 0 && probe_check(&p, e) < 0;
}

/* Finds a better reason than the given one: its memory limit, the guest kernel's own, or that this
 * host is too slow for any guest. On such a host, "rebuild the template here" would be bad
 * advice. */
static bool better_reason(struct sandbox *s, const struct error *why, struct error *e)
{
	if (why->code == ERROR_SANDBOX &&
		(cgroup_explain_end(s->dirfd, s->id, e) || console_find_panic(s->dirfd, e)))
		return true;
	return (why->code == ERROR_SANDBOX || why->code == ERROR_INCOMPATIBLE) &&
	       host_is_slow(s, e);
}

/* Returns the reason for the end. It stays the same from then on. */
static int end(struct sandbox *s, const struct error *why, struct error *e)
{
	if (!s->ended) {
		s->ended = true;
		if (!better_reason(s, why, &s->end))
			s->end = *why;
	}
	if (e && e->code == ERROR_NONE)
		*e = s->end;
	return s->end.err ? -s->end.err : -EIO;
}

/* The agent's connection broke. Mostly the VM has ended, and its reason tells more. */
static int agent_is_lost(struct sandbox *s, const struct error *lost, struct error *e)
{
	struct pollfd p = {.fd = vmm_fd(s->vmm), .events = POLLIN};
	struct error why = {0};

	(void)poll(&p, 1, END_WAIT_MS); /* without an answer the loss itself is the reason */
	return end(s, vmm_is_over(s->vmm, &why) ? &why : lost, e);
}

/* --- creation --- */

static int write_record(struct sandbox *s, const struct sandbox_options *o, struct error *e)
{
	struct sandbox_record r = {
		.template = s->plan.t.name,
		.command = (char *)o->command, /* only read */
		.created_ns = clock_realtime_ns(),
		.cpus = s->plan.cpus,
		.memory_bytes = s->plan.memory_bytes,
		.disk_bytes = s->plan.disk_bytes,
		.owner_pid = getpid(),
		.vmm_pid = vmm_pid(s->vmm),
		.jail = vmm_jail(s->vmm),
		.metadata = o->metadata,
	};

	memcpy(r.id, s->id, sizeof(r.id));
	return sandbox_record_write(s->dirfd, &r, e);
}

static int launch(struct sandbox *s, const struct sandbox_options *o, struct error *e)
{
	_cleanup_free_ char *dir = str_printf("%s/%s", s->dirs->path, s->id);
	_cleanup_close_ int cgroup_fd = -1;
	int r;

	if (!dir)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = sandbox_dirs_make_cgroup(
		s->dirs, s->id, s->dirfd, s->plan.cpus, s->plan.memory_bytes, &cgroup_fd, e);
	if (r < 0)
		return r;
	s->plan.launch.cgroup_fd = cgroup_fd;
	s->plan.launch.dir = dir;
	s->plan.launch.egress_fd = o->egress_fd;
	r = vmm_launch(&s->plan.launch, &s->vmm, e);
	s->plan.launch.dir = NULL;
	s->plan.launch.cgroup_fd = s->plan.launch.egress_fd = -1;
	return r;
}

/* A microVM that could not be made may be gone already, with its socket. */
static int connect_agent(struct sandbox *s, struct error *e)
{
	struct error lost = {0};
	int r = agent_connect(s->dirfd, &s->agent, &lost);

	if (r < 0)
		return agent_is_lost(s, &lost, e);
	r = queue_identity(s, e);
	if (r == 0)
		r = agent_flush(s->agent, NULL) < 0 ? 0 : r; /* a failure comes as an event */
	return r;
}

static int create(struct sandbox *s, const struct home *home, const struct sandbox_options *o,
	struct error *e)
{
	int r = host_check_disk(s->dirs->fd, s->dirs->path, SANDBOX_ROOM_MB * MIB, e);

	if (r == 0)
		r = sandbox_plan_make(home, o, &s->plan, e);
	if (r == 0)
		r = sandbox_dirs_make(s->dirs, s->id, &s->dirfd, e);
	if (r == 0)
		r = gather_env(s, o, e);
	s->begin_ns = clock_monotonic_ns();
	if (r == 0)
		r = launch(s, o, e);
	if (r == 0)
		r = connect_agent(s, e);
	/* Written while the microVM is restored. Its lock is held, so nobody removes the
	 * directory. */
	if (r == 0)
		r = write_record(s, o, e);
	return r;
}

int sandbox_create(const struct home *home, const struct sandbox_dirs *dirs,
	const struct sandbox_options *o, struct sandbox **ret, struct error *e)
{
	uint64_t timeout = o->ready_timeout_ns ? o->ready_timeout_ns : SANDBOX_READY_S * NS_PER_S;
	struct sandbox *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	s->dirs = dirs;
	s->dirfd = -1;
	s->plan = (struct sandbox_plan)SANDBOX_PLAN_INIT;
	s->booted = o->boot;
	sandbox_dirs_collect(dirs);
	r = create(s, home, o, e);
	if (r < 0) {
		sandbox_destroy(s);
		return r;
	}
	s->ready_deadline_ns = clock_monotonic_ns() + timeout;
	*ret = s;
	return 0;
}

void sandbox_destroy(struct sandbox *s)
{
	if (!s)
		return;
	agent_close(s->agent);
	vmm_stop(s->vmm);
	if (s->dirfd >= 0) {
		sandbox_dirs_remove(s->dirs, s->id);
		(void)close(s->dirfd); /* a directory */
	}
	free_env(s);
	sandbox_plan_done(&s->plan);
	free(s);
}

/* --- events --- */

static int reconnect(struct sandbox *s, struct error *e)
{
	agent_close(s->agent);
	s->agent = NULL;
	s->deaf = false;
	s->retry_ns = 0;
	return connect_agent(s, e);
}

static int check_times(struct sandbox *s, struct error *e)
{
	uint64_t now = clock_monotonic_ns();
	struct error why = {0};

	if (s->ready)
		return 0;
	if (now > s->begin_ns + PROBE_AFTER_MS * NS_PER_MS && host_is_slow(s, &why))
		return end(s, &why, e);
	if (now < s->ready_deadline_ns)
		return 0;
	(void)error_set(&why, ERROR_TIMEOUT, ETIMEDOUT,
		"the sandbox did not become ready in %llu s: see the boot log of its template, "
		"mayfly logs "
		"--template %s",
		(unsigned long long)((s->ready_deadline_ns - s->begin_ns) / NS_PER_S),
		s->plan.t.name); /* filled is enough */
	return end(s, &why, e);
}

int sandbox_check(struct sandbox *s, struct error *e)
{
	struct error why = {0};

	if (s->ended)
		return end(s, &why, e);
	if (vmm_is_over(s->vmm, &why))
		return end(s, &why, e);
	/* the loss shows when events are taken again */
	if (s->agent && !s->deaf && agent_flush(s->agent, NULL) < 0)
		s->deaf = true;
	return check_times(s, e);
}

/* Handles events that belong to the making of the sandbox. Returns 1 if it did, 0 if the event is
 * the caller's. */
static int take_own(struct sandbox *s, const struct agent_event *ev, struct error *e)
{
	int r;

	if (s->ready)
		return 0;
	if (!s->hello_done && ev->type == AGENT_HELLO_REPLY)
		r = take_hello(s, &ev->hello, e);
	else if (s->hello_done && ev->type == AGENT_IDENTITY_REPLY)
		r = take_identity(s, &ev->identity, e);
	else
		r = agent_event_error(ev, e);
	return r < 0 ? r : 1;
}

/* As sandbox_next_event, but for the agent alone. */
static int next_agent_event(struct sandbox *s, struct agent_event *ev, struct error *e)
{
	for (;;) {
		struct error lost = {0}, refused = {0};
		int r;

		if (s->retry_ns) {
			if (clock_monotonic_ns() < s->retry_ns)
				return 0;
			r = reconnect(s, e);
			if (r < 0)
				return r;
		}
		r = agent_next_event(s->agent, ev, &lost);
		if (r == 0)
			return 0;
		if (r < 0 && s->booted && !s->ready && (r == -ECONNREFUSED || r == -ECONNRESET)) {
			s->retry_ns = clock_monotonic_ns() + RETRY_MS * NS_PER_MS;
			s->hello_done = false;
			return 0;
		}
		if (r < 0)
			return agent_is_lost(s, &lost, e);
		r = take_own(s, ev, &refused);
		if (r < 0)
			return end(s, &refused, e);
		if (r == 0)
			return 1;
	}
}

int sandbox_next_event(struct sandbox *s, struct agent_event *ev, struct error *e)
{
	int r;

	if (s->ended)
		return end(s, &s->end, e);
	/* the agent's last words come before the VM's end */
	r = next_agent_event(s, ev, e);
	return r == 0 ? sandbox_check(s, e) : r;
}

void sandbox_poll(const struct sandbox *s, bool hold, struct pollfd fds[SANDBOX_POLL_FDS])
{
	fds[0] = (struct pollfd){.fd = vmm_fd(s->vmm), .events = POLLIN};
	fds[1] = (struct pollfd){.fd = -1};
	if (s->retry_ns)
		return;
	fds[1].events = agent_poll_events(s->agent);
	if (hold)
		fds[1].events &= ~POLLIN;
	if (fds[1].events && !(hold && s->deaf)) /* else a hang-up would repeat */
		fds[1].fd = agent_fd(s->agent);
}

uint64_t sandbox_deadline_ns(const struct sandbox *s)
{
	uint64_t probe = s->begin_ns + PROBE_AFTER_MS * NS_PER_MS;

	if (s->ready)
		return UINT64_MAX;
	if (s->retry_ns)
		return s->retry_ns;
	return !s->probed && probe < s->ready_deadline_ns ? probe : s->ready_deadline_ns;
}
