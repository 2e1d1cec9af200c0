#include "interpreter/kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "proto/json_text.h"

enum {
	PROBE_MS = 10,
	SILENT_MS = 100, /* a dead kernel that is silent this long has sent all */
	EXECUTE_ROOM = 512,
	PORT_FIRST = 20000, /* below 32768, where Linux's usual ip_local_port_range begins */
	PORTS = 12768,
};

struct kernel {
	struct kernel_host *host;
	const struct spec *spec;
	const struct kernel_ops *ops;
	void *opaque;
	enum kernel_state state;
	bool stopped; /* by the owner */
	bool released;
	uv_process_t process;
	uv_timer_t timer; /* for probes while STARTING, then for beats, then for ENDING */
	unsigned handles; /* libuv handles that are not closed yet */
	bool running;	  /* the process is not reaped */
	struct channels *channels;
	uint16_t ports[CHANNEL_COUNT];
	char key[MESSAGE_KEY_BYTES];
	char *connection_file; /* owned */
	uint64_t deadline_ns;  /* of STARTING */
	bool shell_seen, iopub_seen;
	bool paused;		  /* its output is paused */
	bool spoke;		  /* since the timer of ENDING last fired */
	char why[KERNEL_WHY_MAX]; /* of ENDING */
	unsigned beats_missed;
};

/* --- ends --- */

static void free_kernel(struct kernel *k)
{
	free(k->connection_file);
	free(k);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct kernel *k = h->data;

	if (--k->handles == 0)
		free_kernel(k);
}

/* Frees the kernel once its process is reaped (or never was) and the owner has let go. */
static void release(struct kernel *k)
{
	if (k->running || !k->stopped || k->released)
		return;
	k->released = true;
	if (!k->handles) {
		free_kernel(k);
		return;
	}
	uv_close((uv_handle_t *)&k->timer, on_handle_closed);
	uv_close((uv_handle_t *)&k->process, on_handle_closed);
}

/* Closes the channels, kills the processes and removes the files. */
static void finish(struct kernel *k)
{
	k->state = KERNEL_ENDED;
	channels_close(TAKE_PTR(k->channels));
	if (k->handles)
		(void)uv_timer_stop(&k->timer); /* always 0 */
	if (k->running)				/* its group: what it started and did not detach */
		(void)kill(-k->process.pid, SIGKILL);
	if (k->connection_file)
		(void)unlink(k->connection_file);
}

static void end(struct kernel *k, const char *why)
{
	if (k->state == KERNEL_ENDED)
		return;
	finish(k);
	if (!k->stopped)
		k->ops->ended(k->opaque, why);
}

static void on_silence(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (!k->paused && !k->spoke)
		end(k, k->why);
	k->spoke = false;
}

/* Its last output is still on its way, or waits for a slow client. */
static void begin_end(struct kernel *k)
{
	if (k->state != KERNEL_READY) {
		end(k, k->why);
		return;
	}
	k->state = KERNEL_ENDING;
	k->spoke = true;
	/* an initialised timer with a callback: starts */
	(void)uv_timer_start(&k->timer, on_silence, SILENT_MS, SILENT_MS);
}

static void on_process_exit(uv_process_t *process, int64_t status, int term_signal)
{
	struct kernel *k = process->data;
	const size_t n = sizeof(k->why);

	/* the rest of its group dies with it */
	(void)kill(-process->pid, SIGKILL);
	k->running = false;
	k->host->running--;
	if (term_signal)
		(void)snprintf(k->why, n, "its process was ended by signal %d (%s)", term_signal,
			strsignal(term_signal));
	else if (status == 127)
		(void)snprintf(k->why, n, "its program %.60s cannot be started",
			json_string_value(json_array_get(k->spec->argv, 0)));
	else
		(void)snprintf(k->why, n, "its process exited with status %lld", (long long)status);
	begin_end(k);
	release(k);
}

void kernel_stop(struct kernel *k)
{
	if (!k)
		return;
	k->stopped = true;
	finish(k);
	release(k);
}

enum kernel_state kernel_state(const struct kernel *k)
{
	return k->state;
}

/* --- becoming ready, staying alive --- */

static void probe(struct kernel *k)
{
	if (channels_send(k->channels, CHANNEL_SHELL, "kernel_info_request", "{}", 2, NULL) < 0)
		end(k, "it takes no requests");
}

static void check_heart(struct kernel *k)
{
	if (k->beats_missed++ == KERNEL_BEATS_MISSED)
		end(k, "it stopped answering");
	else
		(void)channels_beat(k->channels); /* a beat that is not sent does not come back */
}

static void on_timer(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (k->state == KERNEL_READY)
		check_heart(k);
	else if (clock_monotonic_ns() > k->deadline_ns)
		end(k, "it did not answer in time after its start");
	else if (k->shell_seen)
		probe(k);
}

static void become_ready(struct kernel *k)
{
	k->state = KERNEL_READY;
	(void)uv_timer_stop(&k->timer); /* always 0 */
	k->ops->ready(k->opaque);
}

static void on_message(void *opaque, enum channel channel, const struct message *m)
{
	struct kernel *k = opaque;

	if (k->state == KERNEL_READY || k->state == KERNEL_ENDING) {
		k->spoke = true;
		k->ops->message(k->opaque, channel, m);
		return;
	}
	k->shell_seen |= channel == CHANNEL_SHELL;
	k->iopub_seen |= channel == CHANNEL_IOPUB;
	if (k->shell_seen && k->iopub_seen)
		become_ready(k);
}

static void on_beat(void *opaque)
{
	struct kernel *k = opaque;

	k->beats_missed = 0;
}

/* --- start --- */

/* True if a kernel could listen on this port now. */
static bool port_is_free(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	/* bind as the kernel does: lingering connections of a former kernel are no obstacle */
	return fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	       bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

/* Picks ports for the kernel to bind. We connect before it does. So the ports lie outside the range
 * that the system gives to connections. Otherwise a connection to such a port on this host might
 * get that very port, connect to itself, and keep the kernel from it. A port is not picked again
 * for a long time, so kernels that start together do not collide. */
static int pick_ports(struct kernel_host *host, uint16_t ports[CHANNEL_COUNT])
{
	unsigned found = 0;

	for (unsigned tries = 0; tries < PORTS && found < CHANNEL_COUNT; tries++) {
		uint16_t port = (uint16_t)(PORT_FIRST + host->ports_tried++ % PORTS);

		if (port_is_free(port))
			ports[found++] = port;
	}
	return found == CHANNEL_COUNT ? 0 : -EADDRINUSE;
}

static int write_connection_file(struct kernel *k)
{
	_cleanup_free_ char *text = str_printf(
		"{\"transport\":\"tcp\",\"ip\":\"127.0.0.1\",\"shell_port\":%u,\"iopub_port\":%u,"
		"\"stdin_port\":%u,\"control_port\":%u,\"hb_port\":%u,\"key\":\"%s\","
		"\"signature_scheme\":\"hmac-sha256\",\"kernel_name\":\"\"}\n",
		k->ports[CHANNEL_SHELL], k->ports[CHANNEL_IOPUB], k->ports[CHANNEL_STDIN],
		k->ports[CHANNEL_CONTROL], k->ports[CHANNEL_HEARTBEAT], k->key);
	_cleanup_close_ int fd = -1;

	k->connection_file =
		str_printf("%s/kernel-%u.json", k->host->run_dir, k->ports[CHANNEL_SHELL]);
	if (!text || !k->connection_file)
		return -ENOMEM;
	(void)unlink(k->connection_file); /* of a kernel that had the port before */
	fd = open(k->connection_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* NULL-terminated words of a command, or of an environment; owned. */
struct words {
	char **items;
	size_t count, room;
};

static void words_done(struct words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->items[i]);
	free(w->items);
}

static int words_add(struct words *w, char *word /* taken */)
{
	if (word && w->count + 2 > w->room) {
		char **items = realloc(w->items, (w->room * 2 + 64) * sizeof(*items));

		if (items) {
			w->items = items;
			w->room = w->room * 2 + 64;
		}
	}
	if (!word || w->count + 2 > w->room) {
		free(word);
		return -ENOMEM;
	}
	w->items[w->count++] = word;
	w->items[w->count] = NULL;
	return 0;
}

/* Replaces the variable of that name, or adds one. */
static int words_set(struct words *w, char *assignment /* taken */)
{
	size_t n = assignment ? strcspn(assignment, "=") + 1 : 0;

	for (size_t i = 0; assignment && i < w->count; i++)
		if (strncmp(w->items[i], assignment, n) == 0) {
			free(w->items[i]);
			w->items[i] = assignment;
			return 0;
		}
	return words_add(w, assignment);
}

static int make_env(const struct kernel *k, const struct sandbox_env *env, struct words *w)
{
	const char *name;
	json_t *value;
	int r = 0;

	for (char **p = environ; *p && r == 0; p++)
		r = words_add(w, strdup(*p));
	for (size_t i = 0; i < env->count && r == 0; i++)
		r = words_set(w, strdup(env->items[i]));
	json_object_foreach(k->spec->env, name, value) if (r == 0) r =
		words_set(w, str_printf("%s=%s", name, json_string_value(value)));
	return r;
}

/* Fills {connection_file} and {resource_dir} into the word. */
static char *expand(const struct kernel *k, const char *word)
{
	const char *const marks[][2] = {
		{"{connection_file}", k->connection_file}, {"{resource_dir}", k->spec->directory}};
	struct buf out = BUF_INIT(64 << 10);
	char *s;
	int r = 0;

	while (*word && r == 0) {
		size_t i = 0;

		while (i < ARRAY_SIZE(marks) && !str_starts_with(word, marks[i][0]))
			i++;
		r = i < ARRAY_SIZE(marks) ? buf_add_str(&out, marks[i][1])
					  : buf_add_u8(&out, (uint8_t)*word);
		word += i < ARRAY_SIZE(marks) ? strlen(marks[i][0]) : 1;
	}
	s = r == 0 ? strndup(buf_len(&out) ? (const char *)buf_head(&out) : "", buf_len(&out))
		   : NULL;
	buf_done(&out);
	return s;
}

/* Runs this program as the helper that makes the kernel die with us (main.c). */
static int make_argv(const struct kernel *k, struct words *w)
{
	size_t i;
	json_t *v;
	int r = words_add(w, strdup("mayfly-interpreter"));

	if (r == 0)
		r = words_add(w, strdup("--exec"));
	json_array_foreach(k->spec->argv, i, v) if (r == 0) r =
		words_add(w, expand(k, json_string_value(v)));
	return r;
}

static int spawn(struct kernel *k, const char *cwd, const struct sandbox_env *env)
{
	_cleanup_(words_done) struct words argv = {0}, vars = {0};
	uv_stdio_container_t stdio[3] = {
		{.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD, .data.fd = 2}};
	uv_process_options_t o = {
		.exit_cb = on_process_exit,
		.file = "/proc/self/exe",
		.cwd = cwd,
		.flags = UV_PROCESS_DETACHED,
		.stdio = stdio,
		.stdio_count = 3,
	};
	int r = make_argv(k, &argv);

	if (r == 0)
		r = make_env(k, env, &vars);
	if (r < 0)
		return r;
	o.args = argv.items;
	o.env = vars.items;
	r = uv_spawn(k->host->loop, &k->process, &o);
	k->process.data = k->timer.data = k;
	(void)uv_timer_init(k->host->loop, &k->timer); /* always 0 */
	k->handles = 2;				       /* a failed spawn also leaves a handle */
	k->running = r == 0;
	k->host->running += k->running;
	return r;
}

static int start(struct kernel *k, const char *cwd, const struct sandbox_env *env)
{
	static const struct channels_ops ops = {on_message, on_beat};
	int r = str_random_id(k->key, sizeof(k->key));

	if (r == 0)
		r = pick_ports(k->host, k->ports);
	if (r == 0)
		r = write_connection_file(k);
	if (r == 0)
		r = spawn(k, cwd, env);
	if (r < 0)
		return r;
	k->channels = channels_open(k->host->hub, k->ports, k->key, &ops, k);
	if (!k->channels)
		return -ENOMEM;
	k->deadline_ns = clock_monotonic_ns() + KERNEL_START_S * NS_PER_S;
	probe(k);
	return uv_timer_start(&k->timer, on_timer, PROBE_MS, PROBE_MS);
}

struct kernel *kernel_start(struct kernel_host *host, const struct spec *spec, const char *cwd,
	const struct sandbox_env *env, const struct kernel_ops *ops, void *opaque, struct error *e)
{
	struct kernel *k = calloc(1, sizeof(*k));
	int r;

	if (!k) {
		(void)error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
		return NULL;
	}
	k->host = host;
	k->spec = spec;
	k->ops = ops;
	k->opaque = opaque;
	r = start(k, cwd, env);
	if (r == 0)
		return k;
	(void)error_set_errno(
		e, ERROR_HOST, -r, "the kernel of %s cannot be started in %s", spec->language, cwd);
	kernel_stop(k);
	return NULL;
}

/* --- requests --- */

int kernel_execute(
	struct kernel *k, const char *code, size_t n, bool silent, char ret_id[MESSAGE_ID_BYTES])
{
	struct buf content = BUF_INIT(n * 6 + EXECUTE_ROOM); /* \u0000 is the longest escape */
	const char *flag = silent ? "true" : "false", *history = silent ? "false" : "true";
	int r = buf_add_str(&content, "{\"code\":");

	if (r == 0)
		r = json_text_string(&content, code, n, JSON_TEXT_UTF8);
	if (r == 0)
		r = buf_printf(&content,
			",\"silent\":%s,\"store_history\":%s,\"user_expressions\":{},"
			"\"allow_stdin\":false,\"stop_on_error\":false}",
			flag, history);
	if (r == 0)
		r = channels_send(k->channels, CHANNEL_SHELL, "execute_request", buf_head(&content),
			buf_len(&content), ret_id);
	buf_done(&content);
	return r;
}

void kernel_watch(struct kernel *k, bool busy)
{
	if (k->state != KERNEL_READY)
		return;
	k->beats_missed = 0;
	if (busy && k->spec->heartbeat) /* an initialised timer with a callback: starts */
		(void)uv_timer_start(
			&k->timer, on_timer, KERNEL_BEAT_S * 1000, KERNEL_BEAT_S * 1000);
	else
		(void)uv_timer_stop(&k->timer); /* always 0 */
}

void kernel_interrupt(struct kernel *k)
{
	if (k->state != KERNEL_READY)
		return;
	if (!k->spec->interrupt_by_message)
		(void)kill(
			-k->process.pid, SIGINT); /* it is ours: a failure means that it is gone */
	else if (channels_send(k->channels, CHANNEL_CONTROL, "interrupt_request", "{}", 2, NULL) <
		 0)
		log_warn("a kernel takes no interrupt");
}

void kernel_no_input(struct kernel *k)
{
	static const char reply[] = "{\"value\":\"\",\"status\":\"ok\"}";

	/* a kernel that asks and gets no answer waits until it is interrupted */
	(void)channels_send(
		k->channels, CHANNEL_STDIN, "input_reply", reply, sizeof(reply) - 1, NULL);
}

void kernel_pause_output(struct kernel *k, bool paused)
{
	k->paused = paused;
	if (k->channels)
		channels_pause(k->channels, paused);
}
