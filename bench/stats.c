#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

void samples_init(struct samples *s, size_t max)
{
	*s = (struct samples){.ns = calloc(max, sizeof(*s->ns)), .max = max};
	if (!s->ns) {
		(void)fprintf(stderr, "out of memory\n");
		exit(1);
	}
}

void samples_done(struct samples *s)
{
	free(s->ns);
	s->ns = NULL;
}

void samples_add(struct samples *s, uint64_t ns)
{
	if (s->count < s->max)
		s->ns[s->count++] = ns;
	s->sorted = false;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

uint64_t samples_percentile(struct samples *s, double p)
{
	size_t rank = (size_t)ceil(p / 100 * (double)s->count);

	if (s->count == 0)
		return 0;
	if (!s->sorted)
		qsort(s->ns, s->count, sizeof(*s->ns), compare);
	s->sorted = true;
	return s->ns[rank ? rank - 1 : 0];
}

uint64_t samples_mean(const struct samples *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->count; i++)
		sum += s->ns[i];
	return s->count ? sum / s->count : 0;
}

/* --- JSON --- */

static void begin(struct report *j, const char *key)
{
	(void)fprintf(j->f, "%s%s%*s", j->filled[j->depth] ? "," : "", j->depth ? "\n" : "",
		(int)j->depth * 2, ""); /* checked at fclose */
	j->filled[j->depth] = true;
	if (key)
		(void)fprintf(j->f, "\"%s\": ", key); /* checked at fclose */
}

void report_open(struct report *j, const char *key, char bracket)
{
	if (!j->f)
		return;
	begin(j, key);
	(void)fputc(bracket, j->f); /* checked at fclose */
	j->filled[++j->depth] = false;
}

void report_close(struct report *j, char bracket)
{
	if (!j->f)
		return;
	j->depth--;
	(void)fprintf(j->f, "\n%*s%c%s", (int)j->depth * 2, "", bracket,
		j->depth ? "" : "\n"); /* checked at fclose */
}

/* Our strings are names of CPUs and kernels: quotes and control characters become spaces. */
void report_string(struct report *j, const char *key, const char *value)
{
	if (!j->f)
		return;
	begin(j, key);
	(void)fputc('"', j->f); /* checked at fclose */
	for (; *value; value++)
		(void)fputc((unsigned char)*value < ' ' || *value == '"' || *value == '\\' ? ' '
											   : *value,
			j->f);	/* checked at fclose */
	(void)fputc('"', j->f); /* checked at fclose */
}

void report_integer(struct report *j, const char *key, uint64_t value)
{
	if (!j->f)
		return;
	begin(j, key);
	(void)fprintf(j->f, "%llu", (unsigned long long)value); /* checked at fclose */
}

void report_number(struct report *j, const char *key, double value)
{
	if (!j->f)
		return;
	begin(j, key);
	(void)fprintf(j->f, "%.3f", value); /* checked at fclose */
}

static void json_us(struct report *j, const char *key, uint64_t ns)
{
	report_number(j, key, (double)ns / 1000);
}

void report_samples(struct report *j, const char *key, struct samples *s)
{
	report_open(j, key, '{');
	report_integer(j, "count", s->count);
	json_us(j, "min_us", samples_percentile(s, 0));
	json_us(j, "p50_us", samples_percentile(s, 50));
	json_us(j, "p90_us", samples_percentile(s, 90));
	json_us(j, "p99_us", samples_percentile(s, 99));
	json_us(j, "max_us", samples_percentile(s, 100));
	json_us(j, "mean_us", samples_mean(s));
	report_close(j, '}');
}

/* --- the machine --- */

static void cpu_model(char *out, size_t n)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	(void)snprintf(out, n, "unknown");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
			line[strcspn(line, "\n")] = 0;
			(void)snprintf(out, n, "%s", strchr(line, ':') + 2); /* may be cut */
			return;
		}
}

struct machine {
	char cpu[128], time[32];
	struct utsname system;
	long cpus;
	unsigned long long memory_mb;
};

static void describe(struct machine *m)
{
	time_t now = time(NULL);
	struct sysinfo info;
	struct tm tm;

	*m = (struct machine){.cpus = sysconf(_SC_NPROCESSORS_ONLN)};
	cpu_model(m->cpu, sizeof(m->cpu));
	if (uname(&m->system) < 0)
		(void)snprintf(m->system.release, sizeof(m->system.release), "unknown");
	if (sysinfo(&info) == 0)
		m->memory_mb = (unsigned long long)info.totalram * info.mem_unit >> 20;
	if (gmtime_r(&now, &tm))
		(void)strftime(m->time, sizeof(m->time), "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void report_machine(struct report *j)
{
	struct machine m;

	describe(&m);
	report_open(j, "machine", '{');
	report_string(j, "cpu", m.cpu);
	report_integer(j, "cpus", (uint64_t)m.cpus);
	report_integer(j, "memory_mb", m.memory_mb);
	report_string(j, "kernel", m.system.release);
	report_string(j, "time", m.time);
	report_close(j, '}');
}

void print_machine(void)
{
	struct machine m;

	describe(&m);
	(void)printf(
		"%s, %ld CPUs, %llu MB, Linux %s\n", m.cpu, m.cpus, m.memory_mb, m.system.release);
}
