/* The guest's CPU on real hosts: what of their CPUID it gets, and which snapshots go where. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "real_cpus.h"
#include "vmm/cpu_model.h"
#include "vmm/cpuid.h"
#include "vmm/msr.h"

#define BIT(n) (1U << (n))

static uint32_t word(struct kvm_cpuid_table *t, uint32_t f, uint32_t i, enum cpuid_register r)
{
	struct kvm_cpuid_entry2 *c = cpuid_find(t, f, i);

	return c ? *cpuid_word(c, r) : 0;
}

/* --- shaping: what holds for every guest on every host --- */

static void check_hidden(struct kvm_cpuid_table *t)
{
	assert_int_equal(word(t, 0x1, 0, ECX) & (BIT(5) | BIT(15)), 0); /* VMX, PDCM */
	assert_int_equal(
		word(t, 0x80000001, 0, ECX) & (BIT(2) | BIT(23) | BIT(28)), 0); /* SVM, PMU */
	assert_int_equal(word(t, 0x8000000a, 0, EDX), 0);
	assert_int_equal(word(t, 0x8000001f, 0, EAX), 0); /* SEV */
	assert_int_equal(word(t, 0x80000022, 0, EAX), 0);
	assert_int_equal(word(t, 0xa, 0, EAX), 0);
	assert_int_equal(word(t, 0x80000007, 0, EDX) & BIT(8), 0); /* invariant TSC */
	assert_int_equal(word(t, 0x7, 0, EBX) & (BIT(2) | BIT(4) | BIT(11) | BIT(14)), 0);
	assert_int_equal(
		word(t, 0x7, 0, ECX) & (BIT(5) | BIT(7) | BIT(30)), 0);	 /* WAITPKG SHSTK SGX */
	assert_int_equal(word(t, 0x7, 0, EDX) & (BIT(11) | BIT(20)), 0); /* RTM, IBT */
	assert_int_equal(word(t, 0x40000001, 0, EAX) & BIT(4), 0);	 /* async faults */
	assert_int_equal(word(t, 0x1, 0, ECX) >> 31, 1);		 /* a hypervisor */
	if (!cpuid_is_intel(t))
		assert_int_equal(word(t, 0x7, 0, EDX) & BIT(29), 0); /* ARCH_CAPABILITIES */
}

static void check_amx(struct kvm_cpuid_table *t)
{
	assert_int_equal(word(t, 0xd, 0, EAX) & (BIT(17) | BIT(18)), 0); /* both or none: none */
	assert_int_equal(word(t, 0x7, 0, EDX) & (BIT(22) | BIT(24) | BIT(25)), 0);
	assert_int_equal(word(t, 0x7, 1, EAX) & BIT(21), 0);
	assert_int_equal(word(t, 0xd, 1, EAX) & BIT(4), 0);
	assert_int_equal(word(t, 0x1d, 1, EAX), 0);
	assert_int_equal(word(t, 0x1e, 0, EBX), 0);
}

/* Subleaves are those of XCR0's bits, and the sizes cover them and nothing else. */
static void check_xsave(struct kvm_cpuid_table *t)
{
	uint32_t xcr0 = word(t, 0xd, 0, EAX), end = 576;

	for (uint32_t i = 2; i < 63; i++) {
		struct kvm_cpuid_entry2 *c = cpuid_find(t, 0xd, i);

		assert_int_equal(c != NULL, i < 32 && xcr0 >> i & 1);
		if (c && c->eax + c->ebx > end)
			end = c->eax + c->ebx;
	}
	assert_int_equal(word(t, 0xd, 0, ECX), end);
	assert_int_equal(word(t, 0xd, 0, EBX), end);
	assert_true(end <= 4096); /* what KVM_GET_XSAVE gives */
	assert_true(word(t, 0xd, 1, EBX) <= end);
	assert_int_equal(word(t, 0xd, 1, ECX), 0);
	assert_true((xcr0 & (BIT(5) | BIT(6) | BIT(7))) == 0 ||
		    (~xcr0 & (BIT(5) | BIT(6) | BIT(7))) == 0);
}

static void check_topology(struct kvm_cpuid_table *t, unsigned cpus)
{
	const uint32_t leaves[] = {0xb, 0x1f};

	assert_int_equal(word(t, 0x1, 0, EBX) >> 16 & 0xff, cpus);
	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++) {
		if (word(t, 0, 0, EAX) < leaves[i])
			continue;
		assert_int_equal(word(t, leaves[i], 0, EBX), 1);
		assert_int_equal(word(t, leaves[i], 0, ECX), 0x100);
		assert_int_equal(word(t, leaves[i], 1, EBX), cpus); /* one package */
		assert_int_equal(word(t, leaves[i], 1, ECX), 0x201);
		assert_true(1U << word(t, leaves[i], 1, EAX) >= cpus);
	}
	for (unsigned id = 0; id < cpus; id++) {
		cpuid_set_apic_id(t, id);
		assert_int_equal(word(t, 0x1, 0, EBX) >> 24, id);
		assert_int_equal(word(t, 0xb, 0, EDX), id);
		assert_int_equal(word(t, 0xb, 1, EDX), id);
	}
}

static void test_guests_of_real_cpus(void **state)
{
	struct kvm_cpuid_table t;

	(void)state; /* none */
	for (enum real_cpu cpu = 0; cpu < REAL_CPUS; cpu++)
		for (unsigned cpus = 1; cpus <= KVM_CPUS_MAX; cpus++) {
			print_message("%s, %u CPUs\n", real_cpu_name(cpu), cpus);
			real_cpu_table(cpu, &t);
			cpuid_shape(&t, cpus);
			check_hidden(&t);
			check_amx(&t);
			check_xsave(&t);
			check_topology(&t, cpus);
		}
}

/* A table without room for more, and one without anything. */
static void test_odd_tables(void **state)
{
	struct kvm_cpuid_table t;

	(void)state; /* none */
	real_cpu_table(GENOA, &t);
	while (t.head.nent < KVM_CPUID_ENTRIES_MAX)
		t.entries[t.head.nent++] = (struct kvm_cpuid_entry2){.function = 0x2};
	cpuid_shape(&t, 2);
	assert_true(t.head.nent <= KVM_CPUID_ENTRIES_MAX);
	t.head.nent = 0;
	cpuid_shape(&t, 2);
	assert_int_equal(t.head.nent, 0);
}

/* --- which snapshots go where --- */

static void host_facts(enum real_cpu cpu, struct cpu_facts *ret)
{
	struct kvm_cpuid_table t;

	real_cpu_table(cpu, &t);
	cpu_facts_of(&t, real_cpu_capabilities(cpu), ret);
}

/* Of a template made there, limited to `limit` unless NULL. */
static void guest_facts(enum real_cpu cpu, const struct cpu_facts *limit, struct cpu_facts *ret)
{
	uint64_t capabilities = real_cpu_capabilities(cpu) & ~UINT64_C(0x80);
	struct kvm_cpuid_table t;

	real_cpu_table(cpu, &t);
	cpuid_shape(&t, 2);
	if (limit)
		cpu_facts_limit(limit, &t, &capabilities);
	check_xsave(&t);
	cpu_facts_of(&t, cpuid_is_intel(&t) ? capabilities : 0, ret);
}

static void test_restores_in_pairs(void **state)
{
	/* made there (row), restored here */
	static const char *const expected[REAL_CPUS] = {
		[CASCADE_LAKE] = "++++++---",
		[CASCADE_LAKE_TSX] = "++++++---",
		[ICE_LAKE] = "--++++---",
		[SAPPHIRE_RAPIDS] = "---+++---",
		[SAPPHIRE_RAPIDS_HALF] = "---+++---",
		[GRANITE_RAPIDS] = "-----+---",
		[MILAN] = "------+++",
		[MILAN_NO_NESTED] = "------+++",
		[GENOA] = "--------+",
	};

	(void)state; /* none */
	for (enum real_cpu from = 0; from < REAL_CPUS; from++)
		for (enum real_cpu to = 0; to < REAL_CPUS; to++) {
			struct cpu_facts guest, host;
			struct error e = {0};
			int r;

			guest_facts(from, NULL, &guest);
			host_facts(to, &host);
			r = cpu_facts_check(&guest, &host, &e);
			print_message("%s on %s: %s\n", real_cpu_name(from), real_cpu_name(to),
				r ? e.message : "fits");
			assert_int_equal(r == 0, expected[from][to] == '+');
			assert_true(r == 0 || e.code == ERROR_INCOMPATIBLE);
		}
}

/* A template made on what two hosts share runs on both; made on either. */
static void test_baselines_in_pairs(void **state)
{
	(void)state; /* none */
	for (enum real_cpu a = 0; a < REAL_CPUS; a++)
		for (enum real_cpu b = 0; b < REAL_CPUS; b++) {
			struct cpu_facts both, fa, fb, guest;
			struct error e = {0};
			int r;

			host_facts(a, &fa);
			host_facts(b, &fb);
			both = fa;
			r = cpu_facts_common(&both, &fb, &e);
			assert_int_equal(r == 0, (a >= MILAN) == (b >= MILAN));
			if (r)
				continue;
			guest_facts(a, &both, &guest);
			assert_int_equal(cpu_facts_check(&guest, &fa, &e), 0);
			assert_int_equal(cpu_facts_check(&guest, &fb, &e), 0);
		}
}

/* PKRU lies behind what else the CPU has: at another place where that is less. */
static void test_other_offsets(void **state)
{
	struct cpu_facts moved, here, both, guest;
	struct kvm_cpuid_table t;
	struct error e = {0};

	(void)state; /* none */
	host_facts(MILAN, &here);
	real_cpu_table(MILAN, &t);
	cpuid_find(&t, 0xd, 9)->ebx = 0x340;
	cpu_facts_of(&t, real_cpu_capabilities(MILAN), &moved);
	guest_facts(MILAN, NULL, &guest);
	assert_true(cpu_facts_check(&guest, &moved, &e) < 0);
	both = here;
	assert_int_equal(cpu_facts_common(&both, &moved, &e), 0);
	guest_facts(MILAN, &both, &guest);
	assert_int_equal(cpu_facts_check(&guest, &moved, &e), 0);
	assert_int_equal(cpu_facts_check(&guest, &here, &e), 0);
}

/* No fact of a host may be missing without notice, but for those that a guest never sees. */
static void test_every_fact_counts(void **state)
{
	struct cpu_facts guest, host;
	unsigned counted = 0;

	(void)state; /* none */
	for (enum real_cpu cpu = 0; cpu < REAL_CPUS; cpu++) {
		guest_facts(cpu, NULL, &guest);
		for (size_t i = 0; i < CPU_FACTS_WORDS; i++) {
			host_facts(cpu, &host);
			host.word[i] = 0;
			assert_int_equal(
				cpu_facts_check(&guest, &host, NULL) < 0, guest.word[i] != 0);
			counted += guest.word[i] != 0;
		}
	}
	assert_true(counted > 150);
}

/* Kernel and module parameters change the hash although the CPU is the same. */
static void test_hash(void **state)
{
	struct cpu_facts a, b;
	uint64_t hash;

	(void)state; /* none */
	for (enum real_cpu cpu = 0; cpu < REAL_CPUS; cpu++)
		for (enum real_cpu other = 0; other < REAL_CPUS; other++) {
			host_facts(cpu, &a);
			host_facts(other, &b);
			assert_int_equal(cpu_facts_hash(&a) == cpu_facts_hash(&b), cpu == other);
		}
	host_facts(MILAN, &a);
	hash = cpu_facts_hash(&a);
	for (size_t i = 0; i < CPU_FACTS_WORDS; i++) {
		b = a;
		b.word[i] ^= 1;
		assert_int_not_equal(cpu_facts_hash(&b), hash);
	}
}

/* --- as text --- */

static char *text_of(const struct cpu_facts *f)
{
	struct buf b = BUF_INIT(CPU_FACTS_TEXT_MAX);
	char *s;

	assert_int_equal(cpu_facts_print(f, &b), 0);
	s = strndup((const char *)buf_head(&b), buf_len(&b));
	buf_done(&b);
	assert_non_null(s);
	return s;
}

static void test_text(void **state)
{
	struct cpu_facts f, back;

	(void)state; /* none */
	for (enum real_cpu cpu = 0; cpu < REAL_CPUS; cpu++) {
		_cleanup_free_ char *s = NULL;

		host_facts(cpu, &f);
		s = text_of(&f);
		assert_int_equal(cpu_facts_parse(s, &back), 0);
		assert_memory_equal(&f, &back, sizeof(f));
	}
}

static void test_damaged_text(void **state)
{
	struct cpu_facts f, back;
	_cleanup_free_ char *s = NULL, *twice = NULL;
	size_t n;

	(void)state; /* none */
	host_facts(GENOA, &f);
	s = text_of(&f);
	n = strlen(s);
	assert_true(cpu_facts_parse("", &back) < 0);
	for (size_t cut = 0; cut < n; cut++) {
		char kept = s[cut];

		s[cut] = '\0';
		assert_true(cpu_facts_parse(s, &back) < 0);
		s[cut] = '?';
		assert_true(cpu_facts_parse(s, &back) < 0);
		s[cut] = kept;
	}
	twice = malloc(2 * n + 1);
	assert_non_null(twice);
	memcpy(twice, s, n);
	memcpy(twice + n, s, n + 1);
	assert_true(cpu_facts_parse(twice, &back) < 0);
}

/* --- MSRs --- */

static void test_saved_msrs(void **state)
{
	static const uint32_t saved[] = {0x10, 0x3a, 0x3b, 0x48, 0x10a, 0x122, 0x174, 0x1a0, 0x277,
		0x6e0, 0xda0, 0xc0000080, 0xc0000082, 0xc0000102, 0xc0000103, 0x4b564d00,
		0x4b564d04};
	static const uint32_t not_saved[] = {0xc1, 0x186, 0x345, 0x38f, 0x600, 0xc0010004,
		0xc0010200, 0xc0000301,	  /* counters */
		0x480, 0x491, 0xc0010117, /* nested virtualisation */
		0x570,			  /* processor trace */
		0x40000000, 0x40000105,	  /* Hyper-V */
		0x8b, 0xcf};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(saved); i++)
		assert_true(msr_is_saved(saved[i]));
	for (size_t i = 0; i < ARRAY_SIZE(not_saved); i++)
		assert_false(msr_is_saved(not_saved[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guests_of_real_cpus),
		cmocka_unit_test(test_odd_tables),
		cmocka_unit_test(test_restores_in_pairs),
		cmocka_unit_test(test_baselines_in_pairs),
		cmocka_unit_test(test_other_offsets),
		cmocka_unit_test(test_every_fact_counts),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_damaged_text),
		cmocka_unit_test(test_saved_msrs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
