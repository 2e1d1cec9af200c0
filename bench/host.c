/* What a sandbox costs on a KVM host: from its creation to the agent's answer, to the end of `true`
 * and to the first output of Python; alone and many at once; its memory. Beside it, in turn and in
 * the same run: QEMU's microvm machine booting the same kernel, initramfs and disk image, and a
 * container runtime starting the same root. bench/run calls it and says what is needed.
 *
 * QEMU's guest counts as up when its agent says on the console that it is ready, which is earlier
 * than an answer through vsock. The container's root is mounted already and read-only, which spares
 * it the overlay that an engine makes for each. Both are in their favour. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/host.h"
#include "sandbox/prepare.h"
#include "host.h"

enum { CROWD = 50, QEMU_TIMEOUT_S = 60, SETTLE_MS = 2000 };

struct options {
	const char *template, *json, *mayfly, *runtime, *bundle;
	unsigned rounds, qemu_rounds;
	bool python, crowd;
};

_Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-host: %s: %s\n", what, why); /* stderr is all there is */
	exit(1);
}

struct results {
	struct samples ready, exit, output, destroy, cli;
	struct samples qemu, container, container_python;
	struct samples faults, exits; /* counts, not times */
};

/* --- peers --- */

static void measure_qemu(const struct place *p, const char *cpus, const char *memory,
	const struct kernel *k, struct samples *s)
{
	char cmdline[PREPARE_CMDLINE_MAX];
	_cleanup_free_ char *image =
		home_path(&p->home, HOME_TEMPLATES, p->template, "rootfs.ext4");
	_cleanup_free_ char *drive =
		str_printf("id=d,file=%s,format=raw,if=none,snapshot=on", image ? image : "");
	uint64_t ns;

	if (!drive)
		die("memory", "none left");
	prepare_cmdline(cmdline);
	ns = time_until(
		(const char *const[]){"qemu-system-x86_64", "-M",
			"microvm,acpi=on,pit=off,pic=off,rtc=off", "-enable-kvm", "-cpu", "host",
			"-smp", cpus, "-m", memory, "-nodefaults", "-no-user-config", "-no-reboot",
			"-display", "none", "-serial", "stdio", "-kernel", k->vmlinux, "-initrd",
			k->initrd, "-append", cmdline, "-drive", drive, "-device",
			"virtio-blk-device,drive=d", "-device", "virtio-rng-device", NULL},
		"mayfly-agent: ready", QEMU_TIMEOUT_S);
	if (ns)
		samples_add(s, ns);
	else /* the others' figures are good without it */
		(void)fprintf(stderr, "bench-host: QEMU's guest did not come up in %d s\n",
			QEMU_TIMEOUT_S);
}

static void write_config(const char *bundle, const char *args)
{
	char path[4096];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/config.json", bundle); /* fopen tells */
	f = fopen(path, "we");
	if (!f)
		die(path, strerror(errno));
	(void)fprintf(f,
		"{\"ociVersion\":\"1.0.0\",\"process\":{\"terminal\":false,\"user\":{\"uid\":0,"
		"\"gid\":0},\"args\":[%s],\"env\":[\"PATH=/usr/bin:/bin\"],\"cwd\":\"/\"},"
		"\"root\":{\"path\":\"rootfs\",\"readonly\":true},\"hostname\":\"sandbox\","
		"\"mounts\":[{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
		"{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":"
		"[\"nosuid\",\"mode=755\"]}],"
		"\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":"
		"\"ipc\"},{\"type\":\"uts\"},{\"type\":\"mount\"}]}}\n",
		args); /* checked below */
	if (fclose(f) != 0)
		die(path, strerror(errno));
}

static void measure_container(const struct options *o, const char *args, struct samples *s)
{
	write_config(o->bundle, args);
	samples_add(s, time_program((const char *const[]){
			       o->runtime, "run", "--bundle", o->bundle, "bench", NULL}));
}

/* --- rounds --- */

static void measure_ours(const struct options *o, const struct place *p, struct results *r)
{
	static const char *const true_argv[] = {"true", NULL};
	static const char *const python_argv[] = {"python3", "-c", "print(1)", NULL};
	struct life l;

	live_once(p, NULL, &l);
	samples_add(&r->ready, l.ready_ns);
	samples_add(&r->destroy, l.destroy_ns);
	samples_add(&r->faults, l.faults);
	samples_add(&r->exits, l.exits);
	live_once(p, true_argv, &l);
	samples_add(&r->exit, l.exit_ns);
	samples_add(&r->destroy, l.destroy_ns);
	if (o->python) {
		live_once(p, python_argv, &l);
		samples_add(&r->output, l.output_ns);
	}
	if (o->mayfly)
		samples_add(&r->cli, time_program((const char *const[]){o->mayfly, "run",
					     "--template", o->template, "--", "true", NULL}));
}

static void measure_peers(const struct options *o, const struct place *p, const struct template *t,
	const struct kernel *k, unsigned round, struct results *r)
{
	char cpus[16], memory[16];

	(void)snprintf(cpus, sizeof(cpus), "%u", t->config.cpus);	    /* fits */
	(void)snprintf(memory, sizeof(memory), "%uM", t->config.memory_mb); /* fits */
	if (round < o->qemu_rounds)
		measure_qemu(p, cpus, memory, k, &r->qemu);
	if (!o->runtime)
		return;
	measure_container(o, "\"true\"", &r->container);
	if (o->python)
		measure_container(o, "\"python3\",\"-c\",\"print(1)\"", &r->container_python);
}

static void measure(const struct options *o, const struct place *p, struct results *r)
{
	struct samples *all[] = {&r->ready, &r->exit, &r->output, &r->destroy, &r->cli, &r->qemu,
		&r->container, &r->container_python, &r->faults, &r->exits};
	struct template t = {0};
	struct kernel k = {0};
	struct error e = {0};
	struct life warm;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		samples_init(all[i], o->rounds * 2);
	if (template_load(&p->home, p->template, &t, &e) < 0 ||
		(o->qemu_rounds && prepare_kernel(&p->home, NULL, NULL, NULL, &k, &e) < 0))
		die("template", e.message);
	live_once(p, NULL, &warm); /* verifies the template's files and reads them into memory */
	for (unsigned i = 0; i < o->rounds; i++) {
		measure_ours(o, p, r);
		measure_peers(o, p, &t, &k, i, r);
	}
	kernel_done(&k);
	template_done(&t);
}

/* --- output --- */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void print_row(const char *name, struct samples *s)
{
	if (s->count)
		(void)printf("  %-38s %5zu %9.1f %9.1f %9.1f %9.1f\n", name, s->count,
			ms(samples_percentile(s, 50)), ms(samples_percentile(s, 90)),
			ms(samples_percentile(s, 99)), ms(samples_percentile(s, 0.001)));
}

static double ratio(struct samples *a, struct samples *b)
{
	uint64_t n = samples_percentile(b, 50);

	return n ? (double)samples_percentile(a, 50) / (double)n : 0;
}

static void print_results(const struct options *o, struct results *r)
{
	(void)printf("\ntemplate %s, in ms %24s %5s %9s %9s %9s %9s\n", o->template, "", "n", "p50",
		"p90", "p99", "min");
	print_row("create to agent ready", &r->ready);
	print_row("create to the end of true", &r->exit);
	print_row("create to first output of python3", &r->output);
	print_row("destroy", &r->destroy);
	print_row("mayfly run -- true, whole process", &r->cli);
	print_row("QEMU microvm, start to agent's line", &r->qemu);
	print_row("container, true, whole process", &r->container);
	print_row("container, python3, whole process", &r->container_python);
	if (r->qemu.count)
		(void)printf("  QEMU microvm / ours, to agent ready: %.1f\n",
			ratio(&r->qemu, &r->ready));
	if (samples_percentile(&r->faults, 50))
		(void)printf("  KVM up to ready, p50: %llu page faults of %llu exits\n",
			(unsigned long long)samples_percentile(&r->faults, 50),
			(unsigned long long)samples_percentile(&r->exits, 50));
	(void)fflush(stdout); /* a lost line shows */
}

static void write_results(struct report *j, struct results *r)
{
	report_samples(j, "create_to_ready", &r->ready);
	report_samples(j, "create_to_true", &r->exit);
	if (r->output.count)
		report_samples(j, "create_to_python_output", &r->output);
	report_samples(j, "destroy", &r->destroy);
	if (r->cli.count)
		report_samples(j, "cli_run_true", &r->cli);
	if (r->qemu.count) {
		report_samples(j, "qemu_microvm_to_ready", &r->qemu);
		report_number(j, "qemu_to_ours_p50", ratio(&r->qemu, &r->ready));
	}
	if (r->container.count)
		report_samples(j, "container_true", &r->container);
	if (r->container_python.count)
		report_samples(j, "container_python", &r->container_python);
	report_integer(j, "kvm_page_faults_to_ready_p50", samples_percentile(&r->faults, 50));
	report_integer(j, "kvm_exits_to_ready_p50", samples_percentile(&r->exits, 50));
}

/* --- many at once, and what they cost --- */

static void destroy_all(struct sandbox **s, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		sandbox_destroy(s[i]);
}

/* end_ns: what destroying them all took, 0 while they are there. */
static void show_together(
	struct report *j, unsigned count, uint64_t wall_ns, struct samples *s, uint64_t end_ns)
{
	(void)printf("  %2u at once: all ready after %.1f ms, each p50 %.1f p90 %.1f p99 %.1f",
		count, ms(wall_ns), ms(samples_percentile(s, 50)), ms(samples_percentile(s, 90)),
		ms(samples_percentile(s, 99)));
	if (end_ns)
		(void)printf("; all gone after %.1f ms", ms(end_ns));
	(void)printf("\n");
	(void)fflush(stdout); /* a lost line shows */
	report_open(j, NULL, '{');
	report_integer(j, "count", count);
	report_number(j, "wall_ms", ms(wall_ns));
	report_samples(j, "each", s);
	if (end_ns)
		report_number(j, "destroy_all_ms", ms(end_ns));
	report_close(j, '}');
}

static const double mib = 1048576;

static void show_density(struct report *j, unsigned count, uint64_t host_bytes,
	const struct process_memory *sum, const struct process_memory *most)
{
	double n = count;

	(void)printf("\n  %u idle sandboxes, each in MiB\n"
		     "  guest memory written, its own           %8.2f\n"
		     "  guest memory mapped, shared by all      %8.2f\n"
		     "  VMM besides guest memory, private       %8.2f (most %.2f)\n"
		     "  VMM besides guest memory, shared        %8.2f\n"
		     "  the host's available memory fell by     %8.2f\n",
		count, (double)sum->guest_written / n / mib, (double)sum->guest_shared / n / mib,
		(double)sum->vmm_private / n / mib, (double)most->vmm_private / mib,
		(double)sum->vmm_shared / n / mib, (double)host_bytes / n / mib);
	(void)fflush(stdout); /* a lost line shows */
	report_open(j, "density", '{');
	report_integer(j, "sandboxes", count);
	report_integer(j, "guest_written_bytes_each", sum->guest_written / count);
	report_integer(j, "guest_shared_bytes_each", sum->guest_shared / count);
	report_integer(j, "vmm_private_bytes_each", sum->vmm_private / count);
	report_integer(j, "vmm_private_bytes_most", most->vmm_private);
	report_integer(j, "vmm_shared_bytes_each", sum->vmm_shared / count);
	report_integer(j, "host_available_fell_bytes_each", host_bytes / count);
	report_close(j, '}');
}

static void measure_density(const struct place *p, struct report *j, struct sandbox **s,
	unsigned count, uint64_t before)
{
	struct process_memory sum = {0}, most = {0}, m;
	uint64_t after;

	(void)poll(NULL, 0, SETTLE_MS); /* sleeps: what the guests still do is over then */
	after = host_memory_available();
	for (unsigned i = 0; i < count; i++) {
		read_memory(vmm_pid_of(p, s[i]), &m);
		sum.guest_written += m.guest_written;
		sum.guest_shared += m.guest_shared;
		sum.vmm_private += m.vmm_private;
		sum.vmm_shared += m.vmm_shared;
		if (m.vmm_private > most.vmm_private)
			most = m;
	}
	show_density(j, count, before > after ? before - after : 0, &sum, &most);
}

static void measure_crowd(const struct place *p, struct report *j)
{
	static const unsigned counts[] = {1, 10, CROWD};
	struct sandbox *s[CROWD];
	uint64_t before = 0, end;

	(void)printf("\n");
	report_open(j, "at_once", '[');
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		bool last = i + 1 == ARRAY_SIZE(counts);
		struct samples each;
		uint64_t wall;

		samples_init(&each, CROWD);
		before = host_memory_available();
		wall = live_together(p, counts[i], s, &each);
		end = clock_monotonic_ns();
		if (!last)
			destroy_all(s, counts[i]);
		show_together(j, counts[i], wall, &each, last ? 0 : clock_monotonic_ns() - end);
		samples_done(&each);
	}
	report_close(j, ']');
	measure_density(p, j, s, CROWD, before);
	end = clock_monotonic_ns();
	destroy_all(s, CROWD);
	end = clock_monotonic_ns() - end;
	(void)printf("  all %d gone after %.1f ms\n", CROWD, ms(end));
	report_number(j, "destroy_crowd_ms", ms(end));
}

static void run(const struct options *o, FILE *f)
{
	struct place p = {.home = HOME_INIT, .dirs = SANDBOX_DIRS_INIT, .template = o->template};
	struct report j = {.f = f};
	struct results r = {0};
	struct error e = {0};

	if (home_open(NULL, &p.home, &e) < 0 || sandbox_dirs_open(p.home.path, &p.dirs, &e) < 0)
		die("home", e.message);
	/* for the counters; without them those rows are missing */
	(void)mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	report_open(&j, NULL, '{');
	report_string(&j, "benchmark", "host");
	report_string(&j, "template", o->template);
	report_machine(&j);
	measure(o, &p, &r);
	print_results(o, &r);
	write_results(&j, &r);
	if (o->crowd)
		measure_crowd(&p, &j);
	report_close(&j, '}');
	sandbox_dirs_close(&p.dirs);
	home_close(&p.home);
}

static _Noreturn void usage(void)
{
	(void)fprintf(stderr,
		"usage: bench-host --template NAME [--rounds N] [--json FILE] [--python] "
		"[--crowd]\n       [--mayfly PROGRAM] [--qemu-rounds N] [--runtime PROGRAM "
		"--bundle DIR]\n");
	exit(2);
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {{"template", required_argument, NULL, 't'},
		{"rounds", required_argument, NULL, 'r'}, {"json", required_argument, NULL, 'j'},
		{"python", no_argument, NULL, 'p'}, {"crowd", no_argument, NULL, 'c'},
		{"mayfly", required_argument, NULL, 'm'},
		{"qemu-rounds", required_argument, NULL, 'q'},
		{"runtime", required_argument, NULL, 'x'}, {"bundle", required_argument, NULL, 'b'},
		{0}};
	int c;

	*o = (struct options){.rounds = 25};
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 't':
			o->template = optarg;
			break;
		case 'r':
			o->rounds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'j':
			o->json = optarg;
			break;
		case 'p':
			o->python = true;
			break;
		case 'c':
			o->crowd = true;
			break;
		case 'm':
			o->mayfly = optarg;
			break;
		case 'q':
			o->qemu_rounds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'x':
			o->runtime = optarg;
			break;
		case 'b':
			o->bundle = optarg;
			break;
		default:
			usage();
		}
	}
	if (!o->template || o->rounds == 0 || optind != argc || !o->runtime != !o->bundle)
		usage();
}

int main(int argc, char **argv)
{
	FILE *f = NULL;
	struct options o;

	parse(argc, argv, &o);
	if (o.json) {
		f = fopen(o.json, "we");
		if (!f)
			die(o.json, strerror(errno));
	}
	run(&o, f);
	if (f && fclose(f) != 0)
		die(o.json, strerror(errno));
	return 0;
}
