#include "fleet/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "sandbox/sandbox_dir.h"

struct pool {
	struct fleet *fleet;
	struct stock stock;
	uv_timer_t tick;
	uv_timer_t look;     /* looks at the sandbox handed out last while the stock is quiet */
	pid_t looked_at;     /* its process; 0: it failed */
	uint64_t looked_cpu; /* CPU time in ns that it had used by then */
	struct pool_vm *making[POOL_MAKERS]; /* NULL: none */
	unsigned makers, ticks;
	bool stopping;
};

/* One VM; freed when neither a worker nor the loop uses it. */
struct pool_vm {
	struct stock_vm stock;
	struct pool *pool;
	struct stock_kind *making;     /* while a worker makes it */
	struct sandbox_sizes promised; /* zeros: given back, to be ended */
	struct backend_sandbox sandbox;
	struct sandbox_origin origin; /* for a snapshot; otherwise fd is -1 */
	int pid_fd;
	uv_poll_t death; /* watches pid_fd, closed last */
	bool watched;
	uv_work_t work;
	int result;
	struct error why;
};

static struct quota *quota_of(const struct pool *p)
{
	return &p->fleet->quota;
}

/* --- ending a VM --- */

static void free_vm(struct pool_vm *v)
{
	vmm_release(v->sandbox.vmm);
	backend_sandbox_done(&v->sandbox);
	cleanup_close_p(&v->origin.fd);
	cleanup_close_p(&v->pid_fd);
	free(v);
}

static void on_death_closed(uv_handle_t *h)
{
	free_vm(h->data);
}

/* Frees a VM that neither a worker nor the loop uses any more. */
static void let_go(struct pool_vm *v)
{
	if (v->watched)
		uv_close((uv_handle_t *)&v->death, on_death_closed);
	else
		free_vm(v);
}

static void end_work(uv_work_t *w)
{
	struct pool_vm *v = w->data;
	struct fleet *f = v->pool->fleet;
	struct error e = {0};

	if (f->options.backend->end(
		    &f->dirs, v->sandbox.id, TAKE_PTR(v->sandbox.vmm), v->sandbox.pid, &e) < 0)
		log_error("%s sandbox=%s", e.message, v->sandbox.id);
}

static void end_done(uv_work_t *w, int status)
{
	let_go(w->data);
}

/* Gives its place back at once, before it has ended: it never ran, so it uses almost nothing of
 * it. */
static void give_back(struct pool_vm *v)
{
	if (v->promised.cpus)
		quota_release(quota_of(v->pool), &v->promised);
	v->promised = (struct sandbox_sizes){0};
}

/* Ends a VM that is out of the stock. */
static void end_vm(struct pool_vm *v)
{
	give_back(v);
	if (v->watched)
		(void)uv_poll_stop(&v->death); /* always 0 */
	/* fails only without a callback */
	(void)uv_queue_work(v->pool->fleet->loop, &v->work, end_work, end_done);
}

/* Ends one of the kind that was last wanted the longest ago. */
static bool end_one(struct pool *p)
{
	struct stock_vm *vm = stock_yield(&p->stock);

	if (vm)
		end_vm((struct pool_vm *)vm);
	return vm != NULL;
}

static void on_death(uv_poll_t *h, int status, int events)
{
	struct pool_vm *v = h->data;
	static struct log_limit limit = LOG_LIMIT_INIT(5);

	if (log_limited(&limit))
		log_warn("a VM of the pool died sandbox=%s template=%s", v->sandbox.id,
			v->stock.kind->key.template);
	stock_died(&v->pool->stock, &v->stock, clock_monotonic_ns());
	end_vm(v);
}

/* --- making --- */

static void refill(struct pool *p);

static void make_work(uv_work_t *w)
{
	struct pool_vm *v = w->data;
	struct fleet *f = v->pool->fleet;
	const struct sandbox_options o = {
		.origin = v->origin.fd >= 0 ? &v->origin : NULL,
		.template = v->making->key.template,
		.cpus = v->making->key.sizes.cpus,
		.memory_bytes = v->making->key.sizes.memory_bytes,
		.disk_bytes = v->making->key.sizes.disk_bytes,
		.paused = true,
	};

	v->result = f->options.backend->make(&f->home, &f->dirs, &o, &v->sandbox, &v->why);
}

static void cannot_make(struct pool_vm *v, struct stock_kind *kind)
{
	static struct log_limit limit = LOG_LIMIT_INIT(5);

	if (!kind->gone && !v->pool->stopping && log_limited(&limit))
		log_warn("cannot make a VM for the pool: %s template=%s", v->why.message,
			kind->key.template);
	give_back(v);
	stock_failed(&v->pool->stock, kind, clock_monotonic_ns());
	let_go(v);
}

/* Ends surplus VMs. */
static void trim(struct pool *p)
{
	struct stock_vm *vm;

	while ((vm = stock_surplus(&p->stock, clock_monotonic_ns())))
		end_vm((struct pool_vm *)vm);
}

static struct pool_vm **slot_of(struct pool *p, const struct pool_vm *v)
{
	struct pool_vm **slot = p->making;

	while (*slot != v)
		slot++; /* there is one: at most POOL_MAKERS are being made */
	return slot;
}

/* Keeps a finished VM and watches it from now on. */
static void keep(struct pool_vm *v, struct stock_kind *kind)
{
	struct pool *p = v->pool;

	v->death.data = v;
	v->watched = instance_watch_process(p->fleet, v->sandbox.pid, &v->death, &v->pid_fd,
			     on_death, &v->why) == 0;
	stock_add(&p->stock, kind, &v->stock);
	if (v->watched)
		return;
	stock_died(&p->stock, &v->stock, clock_monotonic_ns());
	end_vm(v);
}

static void make_done(uv_work_t *w, int status)
{
	struct pool_vm *v = w->data;
	struct pool *p = v->pool;
	struct stock_kind *kind = TAKE_PTR(v->making);

	*slot_of(p, v) = NULL;
	p->makers--;
	cleanup_close_p(&v->origin.fd);
	v->origin.fd = -1;
	if (v->result < 0) {
		cannot_make(v, kind);
	} else if (v->promised.cpus && !p->stopping) {
		keep(v, kind);
	} else {
		stock_postpone(&p->stock, kind, clock_monotonic_ns());
		end_vm(v);
	}
	trim(p);
	refill(p);
}

static int open_origin(struct pool_vm *v, const struct stock_key *k)
{
	v->origin = (struct sandbox_origin){.fd = -1, .memory = true};
	if (!k->snapshot)
		return 0;
	v->origin.fd = openat(v->pool->fleet->home.area_fd[HOME_SNAPSHOTS], k->snapshot,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return v->origin.fd < 0 ? error_set_errno(&v->why, ERROR_BAD_SNAPSHOT, errno,
					  "the files of the snapshot are missing")
				: 0;
}

static void start_maker(struct pool *p, struct stock_kind *kind)
{
	struct fleet *f = p->fleet;
	struct pool_vm *v = calloc(1, sizeof(*v));
	struct error full = {0};

	if (!v || quota_reserve(quota_of(p), &f->dirs, &kind->key.sizes, 1, &full) < 0) {
		log_debug("no room for a VM of the pool: %s template=%s", full.message,
			kind->key.template);
		stock_postpone(&p->stock, kind, clock_monotonic_ns());
		free(v);
		return;
	}
	v->pool = p;
	v->promised = kind->key.sizes;
	v->sandbox.dirfd = v->pid_fd = -1;
	v->work.data = v;
	if (open_origin(v, &kind->key) < 0) {
		cannot_make(v, kind);
		return;
	}
	v->making = kind;
	*slot_of(p, NULL) = v;
	p->makers++;
	(void)uv_queue_work(f->loop, &v->work, make_work, make_done); /* as in end_vm */
}

static void begin(struct pool *p, unsigned makers)
{
	struct stock_kind *kind;

	while (!p->stopping && p->makers < makers &&
		(kind = stock_begin(&p->stock, clock_monotonic_ns())))
		start_maker(p, kind);
}

static void refill(struct pool *p)
{
	if (p->fleet->making == 0)
		begin(p, POOL_MAKERS);
}

/* --- no making while a sandbox just handed out is busy --- */

static void on_look(uv_timer_t *t)
{
	struct pool *p = t->data;
	uint64_t cpu = process_cpu_ns(p->looked_at);
	bool rests = cpu <= p->looked_cpu + POOL_LOOK_MS * NS_PER_MS / 100 * POOL_REST_PERCENT;

	p->looked_cpu = cpu;
	if (!rests && stock_is_quiet(&p->stock, clock_monotonic_ns()))
		return;
	(void)uv_timer_stop(t); /* always 0 */
	stock_rest(&p->stock);
	refill(p);
}

void pool_handed_out(struct pool *p, pid_t pid)
{
	if (!p || p->stopping)
		return;
	p->looked_at = pid;
	p->looked_cpu = process_cpu_ns(pid);
	stock_hand_out(&p->stock, clock_monotonic_ns());
	(void)uv_timer_start(&p->look, on_look, POOL_LOOK_MS, POOL_LOOK_MS); /* cannot fail */
}

/* --- wanted kinds --- */

static void want_named(struct pool *p, const char *template)
{
	struct fleet *f = p->fleet;
	const struct sandbox_options o = {.template = template};
	struct stock_key k = {.template = template};

	/* the template may be built later */
	if (f->options.backend->measure(&f->home, &o, &k.sizes, &k.made_s, NULL) == 0)
		(void)stock_want(&p->stock, &k, clock_monotonic_ns()); /* false: too many kinds */
}

/* Whether the name still refers to the files that it was made from. */
static bool is_current(const struct pool *p, const struct stock_key *k)
{
	struct fleet *f = p->fleet;
	const struct sandbox_options o = {.template = k->template};
	struct sandbox_sizes sizes;
	uint64_t made_s;

	if (k->snapshot)
		return file_exists(f->home.area_fd[HOME_SNAPSHOTS], k->snapshot);
	return f->options.backend->measure(&f->home, &o, &sizes, &made_s, NULL) == 0 &&
	       made_s == k->made_s;
}

static void check_wanted(struct pool *p)
{
	for (struct stock_kind *k = p->stock.kinds; k; k = k->next)
		if (!k->gone && !is_current(p, &k->key))
			stock_forget(k);
	for (unsigned i = 0; i < p->stock.options.named_count; i++)
		if (p->stock.options.named[i].count)
			want_named(p, p->stock.options.named[i].template);
}

static void on_tick(uv_timer_t *t)
{
	struct pool *p = t->data;

	if (p->ticks++ % POOL_CHECK_TICKS == 0)
		check_wanted(p); /* reads files, so only rarely */
	trim(p);
	begin(p, p->fleet->making ? 1 : POOL_MAKERS);
}

bool pool_claim(struct pool *p, const struct stock_key *k, bool usual, struct backend_sandbox *ret)
{
	struct pool_vm *v;
	bool kept;

	if (!p || p->stopping)
		return false;
	kept = usual && stock_want(&p->stock, k, clock_monotonic_ns());
	v = (struct pool_vm *)stock_take(&p->stock, k);
	if (!v) {
		if (kept)
			metrics_add(METRIC_POOL_MISSES, k->template, NULL, 1);
		return false;
	}
	metrics_add(METRIC_POOL_CLAIMS, k->template, NULL, 1);
	*ret = v->sandbox;
	v->sandbox = (struct backend_sandbox){.dirfd = -1};
	let_go(v);
	return true;
}

static bool fits(
	const struct pool *p, struct quota q, const struct sandbox_sizes *s, unsigned count)
{
	return quota_reserve(&q, &p->fleet->dirs, s, count, NULL) == 0;
}

/* The quota as it would be without the pool. */
static struct quota quota_without(const struct pool *p)
{
	struct quota q = *quota_of(p);

	for (const struct stock_kind *k = p->stock.kinds; k; k = k->next)
		for (unsigned n = 0; n < k->ready; n++)
			quota_release(&q, &k->key.sizes);
	for (unsigned n = 0; n < POOL_MAKERS; n++)
		if (p->making[n] && p->making[n]->promised.cpus)
			quota_release(&q, &p->making[n]->promised);
	return q;
}

void pool_make_room(struct pool *p, const struct sandbox_sizes *s, unsigned count)
{
	if (!p || !fits(p, quota_without(p), s, count))
		return;
	for (unsigned n = 0; n < POOL_MAKERS && !fits(p, *quota_of(p), s, count); n++)
		if (p->making[n])
			give_back(p->making[n]); /* ready VMs are worth more */
	while (!fits(p, *quota_of(p), s, count) && end_one(p))
		;
}

void pool_measure(const struct pool *p)
{
	metrics_clear(METRIC_POOL_READY);
	for (const struct stock_kind *k = p ? p->stock.kinds : NULL; k; k = k->next)
		metrics_add(METRIC_POOL_READY, k->key.template, NULL, k->ready);
}

/* --- start and stop --- */

int pool_start(struct fleet *f, struct error *e)
{
	struct stock_options o = f->options.pool;
	struct pool *p;

	if (!stock_is_wanted(&o) || !f->options.backend->resume)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	f->pool = p;
	p->fleet = f;
	if (!o.memory_bytes)
		o.memory_bytes = quota_of(p)->memory_max_bytes / 100 * POOL_MEMORY_PERCENT;
	stock_init(&p->stock, &o);
	(void)uv_timer_init(f->loop, &p->tick); /* cannot fail */
	p->tick.data = p;
	(void)uv_timer_start(&p->tick, on_tick, 0, POOL_TICK_MS);
	(void)uv_timer_init(f->loop, &p->look); /* as above */
	p->look.data = p;
	return 0;
}

void pool_stop(struct fleet *f)
{
	struct pool *p = f->pool;

	if (!p || p->stopping)
		return;
	p->stopping = true;
	uv_close((uv_handle_t *)&p->tick, NULL);
	uv_close((uv_handle_t *)&p->look, NULL);
	while (end_one(p))
		;
}

void pool_free(struct fleet *f)
{
	if (f->pool)
		stock_done(&f->pool->stock);
	free(f->pool);
	f->pool = NULL;
}
