/* usage: collect-calls HEADER LIST SOURCE... Makes the system call filters of mayfly-vmm,
 * mayfly-unpack and mayfly-egress out of tags in its sources. It runs on the machine that builds,
 * and libseccomp is needed there only: HEADER holds plain BPF.
 *
 * A tag is a comment that stands beside the code that makes the calls:
 *
 *   #calls KIND...: CALL...             the calls of one or more kinds of threads
 *   #calls KIND... (REASON): CALL...    such as tests do not reach, and why they do not
 *
 * It ends with the comment, or where the next begins. Kinds are those of kinds[] below, `all` for
 * each of them; `glibc` or `musl` before them limits a tag to programs with that C library.
 * A CALL is a name, and where it matters the values that one of its arguments (arguments[] below)
 * may have:
 *
 *   ioctl(KVM_RUN|KVM_SIGNAL_MSI)       one of these, in the argument's lower 32 bits
 *   mmap(-PROT_EXEC)                    anything without these bits
 *   clone3=ENOSYS                       never let through: fails with this
 *
 * Filters add up: a thread also has those of the thread that made it, so these let its calls
 * through, too (heirs of kinds[]). What no tag names kills the process, as does every call of
 * another architecture or of the x32 interface.
 *
 * LIST has a line `LIBC KIND own|heir tested|untested CALL VALUE HEX` for each, for people and
 * tests. VALUE is * for any, has - before it for bits that must be clear, and = for an error. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/kvm.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CALLS_MAX = 128, /* of a kind */
	VALUES_MAX = 64, /* of an argument */
	WORD_MAX = 64,
	SOURCE_MAX = 1 << 20,
	INSTRUCTIONS_MAX = 4096
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Bit masks of the kinds that a thread with this filter may make, with all of theirs. */
enum { START, MAIN, VCPU, SNAPSHOT, UNPACK, EGRESS, DIALLER, KINDS };
static const struct kind {
	const char *name;
	unsigned heirs;
} kinds[KINDS] = {
	[START] = {"start", 1 << MAIN | 1 << VCPU | 1 << SNAPSHOT},
	[MAIN] = {"main", 1 << SNAPSHOT},
	[VCPU] = {"vcpu", 0},
	[SNAPSHOT] = {"snapshot", 0},
	[UNPACK] = {"unpack", 0},
	[EGRESS] = {"egress", 0},
	[DIALLER] = {"dialler", 0},
};

/* Kinds that a tag names itself; for the others, which are in another program, nothing is made. */
static unsigned named;

enum { GLIBC, MUSL, LIBCS };
static const char *const libcs[LIBCS] = {"glibc", "musl"};

/* The argument that a call's values are of. */
static const struct {
	const char *call;
	unsigned number;
} arguments[] = {
	{"clone", 0},
	{"fcntl", 1},
	{"ioctl", 1},
	{"madvise", 2},
	{"mmap", 2},
	{"mprotect", 2},
	{"prctl", 0},
	{"seccomp", 0},
	{"sendto", 5},
	{"socket", 0},
	{"socketpair", 0},
	{"fallocate", 1},
};

/* The C libraries' flags of pthread_create(). */
#define GLIBC_THREAD                                                                               \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |        \
		CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
#define MUSL_THREAD (GLIBC_THREAD | CLONE_DETACHED)

/* Linux 6.7; also in vmm/pages.c. */
#define PAGEMAP_SCAN_ 0xc0606610

#define VALUE(name)                                                                                \
	{                                                                                          \
#name, (uint32_t)(name)                                                            \
	}
static const struct {
	const char *name;
	uint32_t value;
} values[] = {
	VALUE(GLIBC_THREAD),
	VALUE(MUSL_THREAD),
	{"PAGEMAP_SCAN", PAGEMAP_SCAN_},
	VALUE(ENOSYS),
	VALUE(ENOENT),
	VALUE(ENOMEM),
	VALUE(EPERM),
	VALUE(PROT_EXEC),
	{"NO_ADDRESS", 0}, /* the address has no bytes, so it goes to the peer */
	VALUE(AF_INET),
	VALUE(AF_NETLINK),
	VALUE(AF_UNIX),
	VALUE(PR_SET_NAME),
	{"PR_SCHED_CORE", 62},
	VALUE(SECCOMP_SET_MODE_FILTER),
	VALUE(MADV_RANDOM),
	VALUE(MADV_HUGEPAGE),
	VALUE(MADV_DONTNEED),
	VALUE(MADV_FREE),
	VALUE(MADV_POPULATE_WRITE),
	VALUE(F_GETFD),
	VALUE(F_SETFD),
	VALUE(F_GETFL),
	VALUE(F_SETFL),
	VALUE(F_DUPFD_CLOEXEC),
	{"PUNCH_HOLE", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
	VALUE(KVM_CHECK_EXTENSION),
	VALUE(KVM_CREATE_VCPU),
	VALUE(KVM_CREATE_VM),
	VALUE(KVM_ENABLE_CAP),
	VALUE(KVM_GET_CLOCK),
	VALUE(KVM_GET_DEBUGREGS),
	VALUE(KVM_GET_LAPIC),
	VALUE(KVM_GET_MP_STATE),
	VALUE(KVM_GET_MSRS),
	VALUE(KVM_GET_MSR_INDEX_LIST),
	VALUE(KVM_GET_REGS),
	VALUE(KVM_GET_SREGS),
	VALUE(KVM_GET_SUPPORTED_CPUID),
	VALUE(KVM_GET_TSC_KHZ),
	VALUE(KVM_GET_VCPU_EVENTS),
	VALUE(KVM_GET_VCPU_MMAP_SIZE),
	VALUE(KVM_GET_XCRS),
	VALUE(KVM_GET_XSAVE),
	VALUE(KVM_GET_XSAVE2),
	VALUE(KVM_RUN),
	VALUE(KVM_SET_CLOCK),
	VALUE(KVM_SET_CPUID2),
	VALUE(KVM_SET_DEBUGREGS),
	VALUE(KVM_SET_GSI_ROUTING),
	VALUE(KVM_SET_LAPIC),
	VALUE(KVM_SET_MP_STATE),
	VALUE(KVM_SET_MSRS),
	VALUE(KVM_SET_REGS),
	VALUE(KVM_SET_SREGS),
	VALUE(KVM_SET_TSC_KHZ),
	VALUE(KVM_SET_TSS_ADDR),
	VALUE(KVM_SET_USER_MEMORY_REGION),
	VALUE(KVM_SET_VCPU_EVENTS),
	VALUE(KVM_SET_XCRS),
	VALUE(KVM_SET_XSAVE),
	VALUE(KVM_SIGNAL_MSI),
};

enum rule { ANY, ONE_OF, WITHOUT, FAIL };

struct allowed {
	char name[WORD_MAX];
	uint32_t value;
	bool own, tested; /* by a tag of this kind itself; in a tag without a reason */
};

struct call {
	char name[WORD_MAX];
	int number;
	enum rule rule;
	struct allowed values[VALUES_MAX]; /* WITHOUT and FAIL: one; ANY: one without a name */
	unsigned count;
};

struct list {
	struct call calls[CALLS_MAX]; /* sorted by number */
	unsigned count;
};

static struct list lists[LIBCS][KINDS];

static const char *file;
static unsigned line;

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void die(const char *format, ...)
{
	va_list args;

	if (file)
		(void)fprintf(stderr, "%s:%u: ", file, line);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	exit(1);
}

static uint32_t value_of(const char *name)
{
	for (size_t i = 0; i < COUNT(values); i++)
		if (strcmp(values[i].name, name) == 0)
			return values[i].value;
	die("unknown value %s: add it to values[] of tools/collect-calls.c", name);
}

static unsigned argument_of(const char *call)
{
	for (size_t i = 0; i < COUNT(arguments); i++)
		if (strcmp(arguments[i].call, call) == 0)
			return arguments[i].number;
	die("which argument of %s? Add it to arguments[] of tools/collect-calls.c", call);
}

/* --- lists --- */

static struct call *find_or_add(struct list *l, const char *name, enum rule rule)
{
	int number = seccomp_syscall_resolve_name(name);
	unsigned i = 0;

	if (number < 0)
		die("%s is no system call", name);
	while (i < l->count && l->calls[i].number < number)
		i++;
	if (i < l->count && l->calls[i].number == number) {
		if (l->calls[i].rule != rule)
			die("%s: another tag has other rules for its arguments", name);
		return &l->calls[i];
	}
	if (l->count == CALLS_MAX)
		die("more than %d calls", CALLS_MAX);
	memmove(&l->calls[i + 1], &l->calls[i], (l->count++ - i) * sizeof(l->calls[0]));
	memset(&l->calls[i], 0, sizeof(l->calls[i]));
	(void)snprintf(l->calls[i].name, WORD_MAX, "%s", name); /* a word fits */
	l->calls[i].number = number;
	l->calls[i].rule = rule;
	return &l->calls[i];
}

static void add(struct list *l, const char *name, enum rule rule, const struct allowed *a)
{
	struct call *c = find_or_add(l, name, rule);

	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->values[i].name, a->name) == 0) {
			c->values[i].own |= a->own;
			c->values[i].tested |= a->tested;
			return;
		}
	if (rule != ONE_OF && c->count)
		die("%s: another tag has another value", name);
	if (c->count == VALUES_MAX)
		die("%s: more than %d values", name, VALUES_MAX);
	c->values[c->count++] = *a;
}

/* --- tags --- */

struct tag {
	unsigned libcs, kinds; /* bit masks */
	bool tested;
};

static void add_for(const struct tag *t, const char *name, enum rule rule, struct allowed *a)
{
	for (unsigned libc = 0; libc < LIBCS; libc++)
		for (unsigned k = 0; k < KINDS; k++) {
			a->tested = t->tested;
			for (unsigned of = 0; of < KINDS; of++) {
				a->own = of == k;
				if (t->libcs >> libc & 1 && t->kinds >> of & 1 &&
					(of == k || (rule != FAIL && kinds[k].heirs >> of & 1)))
					add(&lists[libc][k], name, rule, a);
			}
		}
}

static bool has(const struct list *l, int number)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->calls[i].number == number)
			return true;
	return false;
}

/* A call that fails in a heir must get there, whatever its ancestors do with their own. */
static void inherit_failures(struct list *l, const struct list *heir)
{
	for (unsigned i = 0; i < heir->count; i++) {
		struct allowed a = heir->calls[i].values[0];

		a.own = false;
		if (heir->calls[i].rule == FAIL && !has(l, heir->calls[i].number))
			add(l, heir->calls[i].name, FAIL, &a);
	}
}

static void inherit_all_failures(void)
{
	for (unsigned libc = 0; libc < LIBCS; libc++)
		for (unsigned k = 0; k < KINDS; k++)
			for (unsigned of = 0; of < KINDS; of++)
				if (kinds[k].heirs >> of & 1)
					inherit_failures(&lists[libc][k], &lists[libc][of]);
}

/* Skips blanks, and the stars before the lines of a comment. */
static const char *skip(const char *p)
{
	for (; isspace((unsigned char)*p) || (*p == '*' && p[1] != '/'); p++)
		line += *p == '\n';
	return p;
}

static const char *take_word(const char *p, char out[WORD_MAX])
{
	size_t n = 0;

	p = skip(p);
	for (; isalnum((unsigned char)*p) || *p == '_'; p++)
		if (n < WORD_MAX - 1)
			out[n++] = *p;
	out[n] = '\0';
	if (n == 0)
		die("unexpected `%c` in a tag", *p);
	return p;
}

static const char *take_value(const struct tag *t, const char *call, enum rule rule, const char *p)
{
	struct allowed a = {0};

	p = take_word(p, a.name);
	a.value = value_of(a.name);
	add_for(t, call, rule, &a);
	return skip(p);
}

static const char *take_call(const struct tag *t, const char *p)
{
	struct allowed any = {0};
	char name[WORD_MAX];
	enum rule rule;

	p = take_word(p, name);
	if (*p == '=')
		return take_value(t, name, FAIL, p + 1);
	if (*p != '(') {
		add_for(t, name, ANY, &any);
		return skip(p);
	}
	p = skip(p + 1);
	rule = *p == '-' ? WITHOUT : ONE_OF;
	p = take_value(t, name, rule, rule == WITHOUT ? p + 1 : p);
	while (rule == ONE_OF && *p == '|')
		p = take_value(t, name, rule, p + 1);
	if (*p != ')')
		die("%s: expected ) instead of `%c`", name, *p);
	return skip(p + 1);
}

static void take_subject(struct tag *t, const char *word)
{
	for (unsigned i = 0; i < LIBCS; i++)
		if (strcmp(word, libcs[i]) == 0) {
			t->libcs |= 1U << i;
			return;
		}
	for (unsigned i = 0; i < KINDS; i++)
		if (strcmp(word, "all") == 0 || strcmp(word, kinds[i].name) == 0)
			t->kinds |= 1U << i;
		else
			continue;
	for (unsigned i = 0; i < KINDS; i++)
		if (strcmp(word, kinds[i].name) == 0)
			named |= 1U << i;
	if (!t->kinds)
		die("unknown kind of threads: %s", word);
}

static const char *take_subjects(struct tag *t, const char *p)
{
	char word[WORD_MAX];
	unsigned before;

	while (*p != ':' && *p != '(') {
		before = t->kinds + t->libcs;
		p = take_word(p, word);
		take_subject(t, word);
		if (t->kinds + t->libcs == before)
			die("unknown or repeated kind of threads: %s", word);
		p = skip(p);
	}
	t->tested = *p == ':';
	for (; *p && *p != ':'; p++)
		line += *p == '\n';
	if (!t->libcs)
		t->libcs = (1U << LIBCS) - 1;
	return *p ? p + 1 : p;
}

static void take_tag(const char *p)
{
	struct tag t = {0};

	p = skip(take_subjects(&t, skip(p)));
	while (*p && strncmp(p, "*/", 2) != 0 && *p != '#')
		p = take_call(&t, p);
}

static void read_source(const char *path)
{
	static const char word[] = "#calls ";
	static char text[SOURCE_MAX + 1];
	FILE *f = fopen(path, "re");
	const char *p = text, *next;
	size_t n;

	if (!f)
		die("%s: %s", path, strerror(errno));
	n = fread(text, 1, SOURCE_MAX, f);
	text[n] = '\0';
	(void)fclose(f); /* read-only */
	file = path;
	line = 1;
	for (; (next = strstr(p, word)); p = next + strlen(word)) {
		unsigned here;

		for (; p < next; p++)
			line += *p == '\n';
		here = line;
		take_tag(next + strlen(word));
		line = here;
	}
	file = NULL;
}

/* --- filters --- */

static void check(int r, const char *what)
{
	if (r < 0)
		die("libseccomp: %s: %s", what, strerror(-r));
}

static void add_rules(scmp_filter_ctx ctx, const struct call *c)
{
	unsigned n = c->rule == ONE_OF || c->rule == WITHOUT ? argument_of(c->name) : 0;
	uint32_t action = c->rule == FAIL ? SCMP_ACT_ERRNO(c->values[0].value) : SCMP_ACT_ALLOW;
	int r = 0;

	if (c->rule == ANY || c->rule == FAIL)
		r = seccomp_rule_add_exact(ctx, action, c->number, 0);
	else if (c->rule == WITHOUT)
		r = seccomp_rule_add_exact(ctx, action, c->number, 1,
			SCMP_CMP(n, SCMP_CMP_MASKED_EQ, c->values[0].value, 0));
	else
		for (unsigned i = 0; i < c->count && r == 0; i++)
			r = seccomp_rule_add_exact(ctx, action, c->number, 1,
				SCMP_CMP(n, SCMP_CMP_MASKED_EQ, UINT32_MAX, c->values[i].value));
	check(r, c->name);
}

static size_t make_filter(const struct list *l, struct sock_filter out[INSTRUCTIONS_MAX])
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	FILE *f = tmpfile();
	size_t n;

	if (!ctx || !f)
		die("libseccomp, or a temporary file: %s", strerror(errno));
	check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad arch");
	check(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
	for (unsigned i = 0; i < l->count; i++)
		add_rules(ctx, &l->calls[i]);
	check(seccomp_export_bpf(ctx, fileno(f)), "export");
	rewind(f);
	n = fread(out, sizeof(out[0]), INSTRUCTIONS_MAX, f);
	if (n == INSTRUCTIONS_MAX)
		die("a filter is too long");
	(void)fclose(f); /* temporary */
	seccomp_release(ctx);
	return n;
}

static void write_filter(FILE *out, unsigned libc, unsigned kind)
{
	static struct sock_filter code[INSTRUCTIONS_MAX];
	size_t n = make_filter(&lists[libc][kind], code);

	(void)fprintf(out, "\n/* %u calls, %zu instructions */\n", lists[libc][kind].count, n);
	(void)fprintf(out, "static const struct sock_filter %s_%s_filter[] = {\n", libcs[libc],
		kinds[kind].name);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(out, "\t{0x%02x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt,
			code[i].jf, code[i].k);
	(void)fprintf(out, "};\n");
}

static FILE *create(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		die("%s: %s", path, strerror(errno));
	return f;
}

static void finish(FILE *f, const char *path)
{
	if (ferror(f) || fclose(f) != 0)
		die("cannot write %s", path);
}

static void write_header(const char *path)
{
	FILE *out = create(path);

	(void)fprintf(out, "/* Made by tools/collect-calls from the tags in the sources. */\n");
	for (unsigned libc = 0; libc < LIBCS; libc++)
		for (unsigned kind = 0; kind < KINDS; kind++)
			if (named >> kind & 1)
				write_filter(out, libc, kind);
	finish(out, path);
}

static void list_call(FILE *out, const char *head, const struct call *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct allowed *a = &c->values[i];

		(void)fprintf(out, "%s %s %s %s%s%s %x\n", head, a->own ? "own" : "heir",
			a->tested ? "tested" : "untested", c->name,
			c->rule == FAIL	     ? " ="
			: c->rule == WITHOUT ? " -"
					     : " ",
			a->name[0] ? a->name : "*", a->value);
	}
}

static void write_list(const char *path)
{
	FILE *out = create(path);
	char head[WORD_MAX];

	for (unsigned libc = 0; libc < LIBCS; libc++)
		for (unsigned k = 0; k < KINDS; k++) {
			if (!(named >> k & 1))
				continue;
			(void)snprintf(head, sizeof(head), "%s %s", libcs[libc], kinds[k].name);
			for (unsigned i = 0; i < lists[libc][k].count; i++)
				list_call(out, head, &lists[libc][k].calls[i]);
		}
	finish(out, path);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage: collect-calls HEADER LIST SOURCE...");
	if (seccomp_arch_native() != SCMP_ARCH_X86_64)
		die("filters are made for x86-64 only");
	for (int i = 3; i < argc; i++)
		read_source(argv[i]);
	inherit_all_failures();
	write_header(argv[1]);
	write_list(argv[2]);
	return 0;
}
