/* KVMs that refuse, lack capabilities and say other sizes (fake_kvm.h). */
#include "test.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fake_kvm.h"
#include "proto/snapshot.h"
#include "vmm/cpu_model.h"
#include "vmm/cpuid.h"
#include "vmm/msr.h"
#include "vmm/vcpu.h"
#include "vmm/vm.h"
#include "vmm/vm_internal.h"

/* --- opening --- */

static void test_missing_capabilities(void **state)
{
	static const struct {
		int cap;
		const char *name;
	} needed[] = {
		{KVM_CAP_SPLIT_IRQCHIP, "KVM_CAP_SPLIT_IRQCHIP"},
		{KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT"},
		{KVM_CAP_XSAVE, "KVM_CAP_XSAVE"},
		{KVM_CAP_TSC_DEADLINE_TIMER, "KVM_CAP_TSC_DEADLINE_TIMER"},
	};
	struct error e = {0};
	int fd;

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		fake_kvm_reset(MILAN);
		fake.caps[needed[i].cap] = 0;
		e = (struct error){0};
		assert_int_equal(kvm_open(&e), -ENOTSUP);
		assert_non_null(strstr(e.message, needed[i].name));
	}
	fake_kvm_reset(MILAN);
	fake.api_version = 11;
	assert_int_equal(kvm_open(&e), -ENOTSUP);
	fake_kvm_reset(MILAN);
	fd = kvm_open(&e);
	assert_true(fd >= 0);
	(void)close(fd); /* the fake's */
}

static void test_another_hypervisor(void **state)
{
	struct error e = {0};

	(void)state; /* none */
	fake_kvm_reset(MILAN);
	fake.refused_request = KVM_CREATE_VM;
	fake.refused_errno = EBUSY;
	assert_int_equal(kvm_create_vm(0, &e), -EBUSY);
	assert_non_null(strstr(e.message, "another hypervisor"));
	fake.refused_errno = ENOMEM;
	assert_int_equal(kvm_create_vm(0, &e), -ENOMEM);
}

/* --- a machine --- */

/* Fails: there is no kernel. By then all that matters here has been said. */
static void boot(unsigned cpus, const char *baseline)
{
	_cleanup_close_ int empty = memfd_create("kernel", MFD_CLOEXEC);
	struct vm_options o = {.cpus = cpus,
		.memory_bytes = 8 << 20,
		.kernel_fd = empty,
		.initrd_fd = -1,
		.cmdline = "",
		.baseline = baseline,
		.state_fd = -1,
		.memory_fd = -1,
		.hot_fd = -1,
		.console_fd = -1,
		.kvm_fd = kvm_open(NULL),
		.pagemap_fd = -1,
		.vsock_listen_fd = -1};
	struct error e = {0};
	struct vm *vm;

	assert_true(vm_create(&o, &vm, &e) < 0);
	print_message("%s\n", e.message);
	assert_true(fake_kvm_first(KVM_SET_CPUID2, UINT64_MAX) >= 0);
}

static void add_boot_msrs(void)
{
	fake_kvm_add_msr(MSR_IA32_MISC_ENABLE, 0x1800);
	fake_kvm_add_msr(MSR_IA32_ARCH_CAPABILITIES, real_cpu_capabilities(fake.cpu));
}

static void test_rules_come_before_cpus(void **state)
{
	int cpu;

	(void)state; /* none */
	fake_kvm_reset(SAPPHIRE_RAPIDS_HALF);
	add_boot_msrs();
	boot(2, NULL);
	cpu = fake_kvm_first(KVM_CREATE_VCPU, 0);
	assert_true(cpu >= 0 && fake_kvm_first(KVM_CREATE_VCPU, 1) > cpu);
	assert_in_range(fake_kvm_first(KVM_ENABLE_CAP, KVM_CAP_SPLIT_IRQCHIP), 0, cpu);
	assert_in_range(fake_kvm_first(KVM_ENABLE_CAP, KVM_CAP_PMU_CAPABILITY), 0, cpu);
	assert_in_range(fake_kvm_first(KVM_ENABLE_CAP, KVM_CAP_X86_BUS_LOCK_EXIT), 0, cpu);
	assert_in_range(fake_kvm_first(KVM_SET_TSS_ADDR, VM_TSS_BASE), 0, cpu);
	assert_int_equal(cpuid_find(&fake.cpuid, 0xd, 0)->eax & 3U << 17, 0);
}

static void test_older_kernels(void **state)
{
	(void)state; /* none */
	fake_kvm_reset(ICE_LAKE);
	fake.caps[KVM_CAP_PMU_CAPABILITY] = 0;
	fake.caps[KVM_CAP_X86_BUS_LOCK_EXIT] = 0;
	add_boot_msrs();
	boot(1, NULL);
	assert_int_equal(fake_kvm_first(KVM_ENABLE_CAP, KVM_CAP_PMU_CAPABILITY), -1);
	assert_int_equal(fake_kvm_first(KVM_ENABLE_CAP, KVM_CAP_X86_BUS_LOCK_EXIT), -1);
}

/* Each vCPU of Intel's has fast strings; TSX cannot be switched off where there is none. */
static void test_boot_msrs(void **state)
{
	unsigned cpus = 0;

	(void)state; /* none */
	fake_kvm_reset(CASCADE_LAKE);
	add_boot_msrs();
	boot(3, NULL);
	for (unsigned i = 0; i < fake.call_count; i++) {
		const struct fake_call *c = &fake.calls[i];

		if (c->request != KVM_SET_MSRS)
			continue;
		if (c->argument == MSR_IA32_MISC_ENABLE) {
			assert_int_equal(c->value, 0x1801);
			cpus++;
		} else {
			assert_int_equal(c->argument, MSR_IA32_ARCH_CAPABILITIES);
			assert_int_equal(c->value, real_cpu_capabilities(CASCADE_LAKE) & ~0x80ULL);
		}
	}
	assert_int_equal(cpus, 3);
	fake_kvm_reset(GENOA);
	boot(1, NULL);
	assert_int_equal(fake_kvm_first(KVM_SET_MSRS, UINT64_MAX), -1);
}

static void test_baseline(void **state)
{
	struct buf text = BUF_INIT(CPU_FACTS_TEXT_MAX);
	struct kvm_cpuid_table t;
	struct cpu_facts f;

	(void)state; /* none */
	real_cpu_table(MILAN, &t);
	cpu_facts_of(&t, 0, &f);
	assert_int_equal(cpu_facts_print(&f, &text), 0);
	assert_int_equal(buf_add(&text, "", 1), 0);
	fake_kvm_reset(GENOA);
	boot(1, (const char *)buf_head(&text));
	assert_int_equal(cpuid_find(&fake.cpuid, 0xd, 0)->eax, 0x207);
	assert_int_equal(cpuid_find(&fake.cpuid, 0x7, 0)->ebx & 1U << 16, 0); /* AVX-512 */
	buf_done(&text);
}

/* --- a vCPU's state --- */

static void open_vcpu(struct vcpu *v)
{
	struct error e = {0};

	assert_int_equal(vcpu_create(v, 0, 0, 0, &e), 0);
	fake.call_count = 0;
}

/* Whatever is looked at first, the interrupt is in what is saved. */
static void test_timer_expires_while_saving(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct error e = {0};
	struct vcpu v;
	int lapic;

	(void)state; /* none */
	fake_kvm_reset(ICE_LAKE);
	fake_kvm_add_msr(MSR_IA32_TSC, 5000);
	fake_kvm_add_msr(MSR_IA32_TSC_DEADLINE, 6000);
	fake_kvm_add_msr(MSR_IA32_MISC_ENABLE, 1);
	fake.timer_expires = true;
	open_vcpu(&v);
	assert_int_equal(vcpu_save(&v, &b, &e), 0);
	assert_true(fake.timer_seen);
	lapic = fake_kvm_first(KVM_GET_LAPIC, UINT64_MAX);
	assert_true(lapic > fake_kvm_last(KVM_GET_MSRS, UINT64_MAX));
	vcpu_done(&v);
	buf_done(&b);
}

static int reload(struct vcpu *v, const struct buf *b, struct error *e)
{
	struct reader in = reader_of(buf_head(b), buf_len(b));

	fake.call_count = 0;
	return vcpu_load(v, &in, e);
}

static void test_timer_is_armed_again(void **state)
{
	static const uint64_t deadlines[] = {9000, 0};
	struct error e = {0};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(deadlines); i++) {
		struct buf b = BUF_INIT(1 << 20);
		struct vcpu v;
		int set;

		fake_kvm_reset(ICE_LAKE);
		fake_kvm_add_msr(MSR_IA32_TSC, 5000);
		fake_kvm_add_msr(MSR_IA32_TSC_DEADLINE, deadlines[i]);
		open_vcpu(&v);
		assert_int_equal(vcpu_save(&v, &b, &e), 0);
		assert_int_equal(reload(&v, &b, &e), 0);
		set = fake_kvm_last(KVM_SET_MSRS, MSR_IA32_TSC_DEADLINE);
		assert_true(set > fake_kvm_first(KVM_SET_LAPIC, UINT64_MAX));
		assert_int_equal(fake.calls[set].value, deadlines[i] ? deadlines[i] : 5000);
		vcpu_done(&v);
		buf_done(&b);
	}
}

/* A snapshot of a newer kernel's, on an older one. */
static void test_unknown_msrs(void **state)
{
	static const struct {
		uint64_t data;
		int r;
	} cases[] = {{0, 0}, {1, -EINVAL}};
	struct error e = {0};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = BUF_INIT(1 << 20);
		struct vcpu v;

		fake_kvm_reset(ICE_LAKE);
		fake_kvm_add_msr(MSR_IA32_TSC, 5000);
		fake_kvm_add_msr(0x6a0, cases[i].data);
		fake_kvm_add_msr(0xc0000082, 7);
		open_vcpu(&v);
		assert_int_equal(vcpu_save(&v, &b, &e), 0);
		fake.msrs[1] = fake.msrs[2]; /* not known any more */
		fake.msrs[1].data = 0;
		fake.msr_count = 2;
		assert_int_equal(reload(&v, &b, &e), cases[i].r);
		if (cases[i].r)
			assert_non_null(strstr(e.message, "MSR 0x6a0"));
		else
			assert_int_equal(fake.msrs[1].data, 7); /* what follows is set */
		vcpu_done(&v);
		buf_done(&b);
	}
}

/* KVM shows AMD's guests an MSR that their CPUID hides. */
static void test_hidden_capabilities_are_not_saved(void **state)
{
	struct kvm_cpuid_table t;
	struct error e = {0};

	(void)state; /* none */
	for (int intel = 0; intel < 2; intel++) {
		struct buf b = BUF_INIT(1 << 20);
		struct vcpu v;

		fake_kvm_reset(intel ? ICE_LAKE : MILAN);
		fake_kvm_add_msr(MSR_IA32_TSC, 5000);
		fake_kvm_add_msr(MSR_IA32_ARCH_CAPABILITIES, 0x69);
		open_vcpu(&v);
		real_cpu_table(fake.cpu, &t);
		cpuid_shape(&t, 1);
		assert_int_equal(vcpu_set_cpuid(&v, &t, &e), 0);
		assert_int_equal(vcpu_save(&v, &b, &e), 0);
		assert_int_equal(reload(&v, &b, &e), 0);
		assert_int_equal(
			fake_kvm_first(KVM_SET_MSRS, MSR_IA32_ARCH_CAPABILITIES) >= 0, intel);
		vcpu_done(&v);
		buf_done(&b);
	}
}

static void test_xsave_sizes(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct error e = {0};
	struct vcpu v;

	(void)state; /* none */
	fake_kvm_reset(SAPPHIRE_RAPIDS);
	fake_kvm_add_msr(MSR_IA32_TSC, 5000);
	fake.caps[KVM_CAP_XSAVE2] = 11008;
	open_vcpu(&v);
	assert_int_equal(vcpu_save(&v, &b, &e), 0);
	assert_true(fake_kvm_first(KVM_GET_XSAVE2, UINT64_MAX) >= 0);
	assert_int_equal(reload(&v, &b, &e), 0);
	fake.caps[KVM_CAP_XSAVE2] = 4096; /* KVM would read less than there is: another layout */
	assert_true(reload(&v, &b, &e) < 0);
	assert_int_equal(e.code, ERROR_INCOMPATIBLE);
	fake.caps[KVM_CAP_XSAVE2] = 1 << 20;
	assert_true(vcpu_save(&v, &b, &e) < 0);
	vcpu_done(&v);
	buf_done(&b);
}

/* --- the check of a restore --- */

/* The state of a guest that was made on a CPU, without more than is looked at first; with the hash
 * of that host's facts, unless older. */
static int state_of(enum real_cpu cpu, bool older, uint64_t *ret_hash)
{
	static const uint8_t unused[SNAPSHOT_MACHINE_UNUSED_BYTES];
	struct kvm_cpuid_table t;
	struct snapshot_writer w;
	struct cpu_facts f;
	struct buf *b;
	int fd = memfd_create("state", MFD_CLOEXEC);

	real_cpu_table(cpu, &t);
	cpu_facts_of(&t, real_cpu_capabilities(cpu), &f);
	*ret_hash = cpu_facts_hash(&f);
	cpuid_shape(&t, 1);
	snapshot_writer_init(&w);
	b = snapshot_section(&w, SNAPSHOT_MACHINE, 0);
	w.err |= buf_add_le32(b, 1) | buf_add_le64(b, 8 << 20) | buf_add_le32(b, 2000000);
	w.err |= buf_add(b, unused, sizeof(unused));
	for (unsigned i = 0; i < VM_SLOTS; i++)
		w.err |= buf_add_le32(b, 0);
	b = snapshot_section(&w, SNAPSHOT_CPUID, 0);
	w.err |= buf_add_le32(b, t.head.nent);
	w.err |= buf_add(b, t.entries, t.head.nent * sizeof(t.entries[0]));
	if (!older) {
		b = snapshot_section(&w, SNAPSHOT_CPU, 0);
		w.err |= buf_add_le64(b, *ret_hash) | buf_add_le64(b, 0);
	}
	assert_int_equal(snapshot_writer_finish(&w), 0);
	assert_int_equal(write(fd, buf_head(&w.bytes), buf_len(&w.bytes)), buf_len(&w.bytes));
	snapshot_writer_done(&w);
	return fd;
}

/* Its memory is missing, which is found out when the CPU fits. */
static enum error_code restore(int state_fd, uint64_t known)
{
	_cleanup_close_ int empty = memfd_create("memory", MFD_CLOEXEC);
	struct vm_options o = {.state_fd = state_fd,
		.memory_fd = empty,
		.hot_fd = -1,
		.console_fd = -1,
		.kvm_fd = kvm_open(NULL),
		.pagemap_fd = -1,
		.vsock_listen_fd = -1,
		.host_cpu = known};
	struct error e = {0};
	struct vm *vm;

	fake.call_count = 0;
	assert_true(vm_create(&o, &vm, &e) < 0);
	return e.code;
}

static bool was_asked(void)
{
	return fake_kvm_first(KVM_GET_SUPPORTED_CPUID, UINT64_MAX) >= 0;
}

static void test_restore_asks_when_it_must(void **state)
{
	uint64_t hash;
	_cleanup_close_ int fd = state_of(MILAN, false, &hash),
			    older = state_of(MILAN, true, &hash);

	(void)state; /* none */
	fake_kvm_reset(MILAN);
	assert_int_equal(restore(fd, hash), ERROR_BAD_SNAPSHOT);
	assert_false(was_asked());
	assert_int_equal(restore(fd, 0), ERROR_BAD_SNAPSHOT);
	assert_true(was_asked());
	assert_int_equal(restore(fd, hash + 1), ERROR_BAD_SNAPSHOT);
	assert_true(was_asked());
	assert_int_equal(restore(older, hash), ERROR_BAD_SNAPSHOT);
	assert_true(was_asked());
	fake_kvm_reset(GENOA);
	assert_int_equal(restore(fd, 0), ERROR_BAD_SNAPSHOT); /* fits */
	fake_kvm_reset(ICE_LAKE);
	assert_int_equal(restore(fd, 0), ERROR_INCOMPATIBLE);
	assert_int_equal(restore(older, 0), ERROR_INCOMPATIBLE);
}

/* --- the end of a guest --- */

static const char *described(const struct kvm_run *run, int err)
{
	static char text[160];

	kvm_describe_end(run, err, text, sizeof(text));
	return text;
}

static void test_ends_in_words(void **state)
{
	struct kvm_run run = {.exit_reason = KVM_EXIT_INTERNAL_ERROR};
	char small[24];

	(void)state; /* none */
	run.internal.suberror = KVM_INTERNAL_ERROR_DELIVERY_EV;
	run.internal.ndata = 2;
	run.internal.data[0] = 0x80000b0e;
	run.internal.data[1] = 0x31;
	assert_string_equal(
		described(&run, 0), "KVM could not go on (internal error 3, 0x80000b0e, 0x31)");
	run.internal.ndata = 1000; /* as many as fit are there */
	(void)described(&run, 0);
	memset(&run, 0, sizeof(run));
	run.exit_reason = KVM_EXIT_INTERNAL_ERROR;
	run.emulation_failure.suberror = KVM_INTERNAL_ERROR_EMULATION;
	run.emulation_failure.ndata = 3;
	run.emulation_failure.flags = KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES;
	run.emulation_failure.insn_size = 2;
	run.emulation_failure.insn_bytes[0] = 0x0f;
	run.emulation_failure.insn_bytes[1] = 0x01;
	assert_string_equal(
		described(&run, 0), "KVM could not go on (internal error 1, instruction 0f 01)");
	kvm_describe_end(&run, 0, small, sizeof(small));
	assert_int_equal(strlen(small), sizeof(small) - 1); /* cut */
	memset(&run, 0, sizeof(run));
	run.exit_reason = 39; /* memory fault */
	((uint64_t *)&run.hw)[1] = 0xabc000;
	assert_non_null(strstr(described(&run, EFAULT), "memory at 0xabc000"));
	run.exit_reason = 0;
	assert_non_null(strstr(described(&run, EFAULT), "guest's memory:"));
	assert_string_equal(described(&run, ENOMEM), "KVM_RUN: Cannot allocate memory");
	run.exit_reason = KVM_EXIT_EXCEPTION;
	run.ex.exception = 17;
	assert_non_null(strstr(described(&run, 0), "split_lock_detect"));
	run.exit_reason = 77;
	assert_string_equal(described(&run, 0), "unexpected KVM exit 77");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_capabilities),
		cmocka_unit_test(test_another_hypervisor),
		cmocka_unit_test(test_rules_come_before_cpus),
		cmocka_unit_test(test_older_kernels),
		cmocka_unit_test(test_boot_msrs),
		cmocka_unit_test(test_baseline),
		cmocka_unit_test(test_timer_expires_while_saving),
		cmocka_unit_test(test_timer_is_armed_again),
		cmocka_unit_test(test_unknown_msrs),
		cmocka_unit_test(test_hidden_capabilities_are_not_saved),
		cmocka_unit_test(test_xsave_sizes),
		cmocka_unit_test(test_restore_asks_when_it_must),
		cmocka_unit_test(test_ends_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
