/* vCPU threads. Each loops in KVM_RUN and handles its exits itself; accesses to devices take the
 * device's own lock. To stop, the owner sets `halt` and kicks the threads with a signal. Each
 * thread enters KVM_RUN once more with immediate_exit, which completes an access in progress, and
 * parks. The first thread that goes on later does what the devices have left. */
#include "vmm/vm_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "vmm/kvm.h"
#include "vmm/thread_filter.h"

enum {
	KICK_SIGNAL = SIGUSR1,
	THREAD_STACK_BYTES = 128 * 1024,
	PORT_KEYBOARD = 0x64,
	KEYBOARD_RESET = 0xfe,
	BUS_LOCK_PAUSE_NS = 100 * 1000,
	STOP_S = 5 /* for one batch of a device with its disk I/O */
};

/* Records why the guest has ended (the first reason counts) and makes every vCPU stop.
 *
 * #calls vcpu: write
 * #calls musl vcpu: tkill
 * #calls glibc vcpu: tgkill */
static void end_guest(struct vm *vm, enum vm_end end, const char *why)
{
	pthread_mutex_lock(&vm->lock);
	if (vm->end == VM_RUNNING) {
		vm->end = end;
		(void)snprintf(vm->end_why, sizeof(vm->end_why), "%s", why); /* may be cut */
		(void)eventfd_write(vm->event_fd, 1);			     /* cannot overflow */
	}
	vm->running = false;
	atomic_store(&vm->halt, true);
	for (unsigned i = 0; i < vm->cpu_count; i++) {
		vm->cpus[i].vcpu.run->immediate_exit = 1;
		if (vm->cpus[i].has_thread)
			(void)pthread_kill(vm->cpus[i].thread, KICK_SIGNAL); /* the thread lives */
	}
	pthread_mutex_unlock(&vm->lock);
}

static bool memory_is_whole(struct vm *vm)
{
	bool whole;

	pthread_mutex_lock(&vm->lock);
	whole = backing_is_whole(&vm->backing);
	pthread_mutex_unlock(&vm->lock);
	return whole;
}

/* Ends a guest that crashed or that KVM cannot run. A truncated file is the cause, whatever KVM
 * says. */
static void end_badly(struct vm *vm, enum vm_end end, const char *why)
{
	if (memory_is_whole(vm))
		end_guest(vm, end, why);
	else
		end_guest(vm, VM_END_ERROR, VM_NO_PAGE);
}

/* --- exits --- */

static uint8_t port_read(struct vm *vm, uint16_t port)
{
	if (port >= SERIAL_PORT && port < SERIAL_PORT + SERIAL_PORTS)
		return serial_read(&vm->serial, port - SERIAL_PORT);
	/* No keyboard and no pending output, so the guest's driver does not wait. */
	if (port == PORT_KEYBOARD || port == ACPI_PORT_SLEEP_STATUS)
		return 0;
	return 0xff;
}

static void port_write(struct vm *vm, uint16_t port, uint8_t value)
{
	if (port >= SERIAL_PORT && port < SERIAL_PORT + SERIAL_PORTS) {
		serial_write(&vm->serial, port - SERIAL_PORT, value);
	} else if (port == ACPI_PORT_SLEEP_CONTROL && value & ACPI_SLEEP_ENABLE) {
		vm->power_off_value = value;
		end_guest(vm, VM_END_POWER_OFF, "the guest powered off");
	} else if ((port == ACPI_PORT_RESET && value == ACPI_RESET_VALUE) ||
		   (port == PORT_KEYBOARD && value == KEYBOARD_RESET)) {
		end_guest(vm, VM_END_RESET, "the guest asked for a reset");
	}
}

/* Wider accesses and string instructions arrive as bytes at consecutive ports. */
static void handle_port(struct vm *vm, struct kvm_run *run)
{
	uint8_t *data = (uint8_t *)run + run->io.data_offset;

	for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size)
		for (unsigned k = 0; k < run->io.size; k++) {
			uint16_t port = (uint16_t)(run->io.port + k);

			if (run->io.direction == KVM_EXIT_IO_OUT)
				port_write(vm, port, data[k]);
			else
				data[k] = port_read(vm, port);
		}
}

static void handle_ioapic(struct vm *vm, uint64_t offset, uint8_t *data, uint32_t len, bool write)
{
	uint8_t word[8] = {0};

	if (write) {
		memcpy(word, data, len);
		ioapic_mmio_write(&vm->ioapic, offset, get_le32(word));
	} else {
		put_le32(word, ioapic_mmio_read(&vm->ioapic, offset));
		memcpy(data, word, len);
	}
}

/* Stops when the VM halts, as a guest may keep a device busy forever. */
static void work(struct vm *vm, struct virtio_device *d)
{
	while (virtio_work(d))
		if (atomic_load(&vm->halt)) {
			atomic_store(&vm->undone, true);
			return;
		}
}

static void work_on_undone(struct vm *vm)
{
	atomic_store(&vm->undone, false);
	for (unsigned i = 0; i < VM_SLOTS; i++)
		if (vm->slots[i].device)
			work(vm, vm->slots[i].device);
}

static void write_device(
	struct vm *vm, struct virtio_device *d, uint64_t offset, const struct kvm_run *run)
{
	if (virtio_mmio_write(d, offset, run->mmio.data, run->mmio.len))
		work(vm, d);
}

static void handle_mmio(struct vm *vm, struct kvm_run *run)
{
	uint64_t addr = run->mmio.phys_addr, slot = (addr - VM_MMIO_BASE) / VIRTIO_MMIO_SIZE;
	uint64_t offset = (addr - VM_MMIO_BASE) % VIRTIO_MMIO_SIZE;

	if (addr >= IOAPIC_MMIO_BASE && addr < IOAPIC_MMIO_BASE + IOAPIC_MMIO_SIZE) {
		handle_ioapic(vm, addr - IOAPIC_MMIO_BASE, run->mmio.data, run->mmio.len,
			run->mmio.is_write);
	} else if (addr >= VM_MMIO_BASE && slot < VM_SLOTS && vm->slots[slot].device) {
		if (run->mmio.is_write)
			write_device(vm, vm->slots[slot].device, offset, run);
		else
			virtio_mmio_read(
				vm->slots[slot].device, offset, run->mmio.data, run->mmio.len);
	} else if (!run->mmio.is_write) {
		memset(run->mmio.data, 0xff, run->mmio.len); /* nothing answers at this address */
	}
}

/* Ends the guest after KVM_RUN's error err, or after an unexpected exit. */
static void end_in_error(struct vm *vm, const struct kvm_run *run, int err)
{
	char why[sizeof(vm->end_why)];

	kvm_describe_end(run, err, why, sizeof(why));
	end_badly(vm, VM_END_ERROR, why);
}

/* A bus lock stalls the whole host's memory for a moment, so who makes one waits for a while. With
 * a condition that nobody signals: sleeping would be a system call more for the filter. */
static void slow_down(struct vm *vm)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end); /* cannot fail */
	end.tv_nsec += BUS_LOCK_PAUSE_NS;
	if (end.tv_nsec >= (long)NS_PER_S) {
		end.tv_nsec -= (long)NS_PER_S;
		end.tv_sec++;
	}
	pthread_mutex_lock(&vm->lock);
	(void)pthread_cond_timedwait(&vm->never, &vm->lock, &end); /* times out, or wakes early */
	pthread_mutex_unlock(&vm->lock);
}

static void handle_exit(struct vm_cpu *c)
{
	struct kvm_run *run = c->vcpu.run;

	if (atomic_fetch_add_explicit(&c->exits, 1, memory_order_relaxed) == 0 && c->vcpu.id == 0)
		atomic_store_explicit(
			&c->vm->first_exit_ns, clock_monotonic_ns(), memory_order_relaxed);
	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		handle_port(c->vm, run);
		break;
	case KVM_EXIT_MMIO:
		handle_mmio(c->vm, run);
		break;
	case KVM_EXIT_INTR:
		break;
	case KVM_EXIT_X86_BUS_LOCK:
		slow_down(c->vm);
		break;
	case KVM_EXIT_SHUTDOWN:
		end_badly(c->vm, VM_END_CRASH, "the guest crashed (triple fault)");
		break;
	default:
		end_in_error(c->vm, run, 0);
		break;
	}
}

/* --- threads --- */

static bool guest_is_over(struct vm *vm)
{
	bool over;

	pthread_mutex_lock(&vm->lock);
	over = vm->end != VM_RUNNING;
	pthread_mutex_unlock(&vm->lock);
	return over;
}

/* #calls vcpu: ioctl(KVM_RUN) rt_sigreturn */
static void run_guest(struct vm_cpu *c)
{
	while (!atomic_load(&c->vm->halt)) {
		if (atomic_load(&c->vm->undone))
			work_on_undone(c->vm);
		if (ioctl(c->vcpu.fd, KVM_RUN, 0) == 0) {
			handle_exit(c);
		} else if (errno != EINTR && errno != EAGAIN) {
			end_in_error(c->vm, c->vcpu.run, errno);
		}
	}
	/* Completes an access whose exit was handled above. String instructions may exit again. */
	c->vcpu.run->immediate_exit = 1;
	while (!guest_is_over(c->vm) && ioctl(c->vcpu.fd, KVM_RUN, 0) == 0)
		handle_exit(c);
}

static void *cpu_thread(void *arg)
{
	struct vm_cpu *c = arg;
	struct vm *vm = c->vm;
	struct error e = {0};

	if (filter_install(thread_filter(THREAD_VCPU), &e) < 0)
		end_guest(vm, VM_END_ERROR, e.message); /* so it never runs */
	pthread_mutex_lock(&vm->lock);
	while (!vm->stopping) {
		if (!vm->running) {
			c->state = VCPU_PARKED;
			pthread_cond_signal(&vm->parked);
			pthread_cond_wait(&vm->wake, &vm->lock);
			continue;
		}
		c->state = VCPU_RUNNING;
		c->vcpu.run->immediate_exit = 0;
		pthread_mutex_unlock(&vm->lock);
		run_guest(c);
		pthread_mutex_lock(&vm->lock);
	}
	c->state = VCPU_ENDED;
	pthread_mutex_unlock(&vm->lock);
	return NULL;
}

static void on_kick(int signo)
{
	(void)signo; /* only makes KVM_RUN return */
}

/* #calls start: rt_sigaction
 * #calls musl start main: clone(MUSL_THREAD)
 * #calls glibc start main: clone(GLIBC_THREAD) */
int vm_start_threads(struct vm *vm, struct error *e)
{
	struct sigaction sa = {.sa_handler = on_kick};
	pthread_attr_t attr;
	sigset_t all, old;
	int r = 0;

	sigemptyset(&sa.sa_mask);
	if (sigaction(KICK_SIGNAL, &sa, NULL) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "sigaction");
	pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES); /* else the larger default */
	sigfillset(&all);
	sigdelset(&all, KICK_SIGNAL);
	sigdelset(&all, SIGBUS);		  /* if blocked, it kills without its handler */
	pthread_sigmask(SIG_SETMASK, &all, &old); /* the threads inherit it */
	for (unsigned i = 0; i < vm->cpu_count && r == 0; i++) {
		r = pthread_create(&vm->cpus[i].thread, &attr, cpu_thread, &vm->cpus[i]);
		vm->cpus[i].has_thread = r == 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r ? error_set_errno(e, ERROR_NO_SPACE, r, "cannot start a vCPU thread") : 0;
}

/* Makes every running thread leave KVM_RUN soon. Lock held.
 *
 * #calls musl main snapshot: tkill
 * #calls glibc main snapshot: tgkill */
static void kick_all(struct vm *vm)
{
	atomic_store(&vm->halt, true);
	for (unsigned i = 0; i < vm->cpu_count; i++) {
		if (!vm->cpus[i].has_thread)
			continue;
		vm->cpus[i].vcpu.run->immediate_exit = 1;
		(void)pthread_kill(vm->cpus[i].thread, KICK_SIGNAL); /* the thread lives */
	}
}

void vm_stop_threads(struct vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	vm->stopping = true;
	vm->running = false;
	kick_all(vm);
	pthread_cond_broadcast(&vm->wake);
	pthread_mutex_unlock(&vm->lock);
	for (unsigned i = 0; i < vm->cpu_count; i++)
		if (vm->cpus[i].has_thread) {
			pthread_join(vm->cpus[i].thread, NULL);
			vm->cpus[i].has_thread = false;
		}
}

static bool all_parked(const struct vm *vm)
{
	for (unsigned i = 0; i < vm->cpu_count; i++)
		if (vm->cpus[i].state != VCPU_PARKED)
			return false;
	return true;
}

static int await_parked(struct vm *vm)
{
	struct timespec end;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &end); /* cannot fail */
	end.tv_sec += STOP_S;
	while (r == 0 && !all_parked(vm))
		r = pthread_cond_timedwait(&vm->parked, &vm->lock, &end);
	return -r;
}

/* Lock held. Also reaches threads that were told to stop and have not done so yet. */
static void let_run(struct vm *vm)
{
	vm->running = true;
	atomic_store(&vm->halt, false);
	for (unsigned i = 0; i < vm->cpu_count; i++)
		vm->cpus[i].vcpu.run->immediate_exit = 0;
	pthread_cond_broadcast(&vm->wake);
}

int vm_stop_cpus(struct vm *vm, bool *ret_was_running, struct error *e)
{
	int r;

	pthread_mutex_lock(&vm->lock);
	*ret_was_running = vm->running;
	vm->running = false;
	kick_all(vm);
	r = await_parked(vm);
	if (r < 0 && *ret_was_running && vm->end == VM_RUNNING)
		let_run(vm);
	pthread_mutex_unlock(&vm->lock);
	return r < 0 ? error_set(e, ERROR_TIMEOUT, -r,
			       "the guest cannot be stopped: one of its processors has been "
			       "waiting "
			       "for a disk for %d s; try again",
			       STOP_S)
		     : 0;
}

/* Called before the first run.
 *
 * #calls main: ioctl(KVM_SET_CLOCK) */
static void resume_devices(struct vm *vm)
{
	struct kvm_clock_data clock = {.clock = vm->clock_ns};

	/* bytes waiting in host sockets are then in the guest's rings when it wakes up */
	for (unsigned i = 0; i < VM_SLOTS; i++)
		if (vm->slots[i].device)
			virtio_resume(vm->slots[i].device);
	atomic_store(&vm->undone, true);
	/* The guest's timers should not see how long the VM waited. This call cannot fail now: it
	 * succeeded when the state was loaded. */
	if (vm->clock_ns)
		(void)kvm_ioctl(vm->fd, KVM_SET_CLOCK, &clock);
	vm->devices_resumed = true;
}

void vm_start_cpus(struct vm *vm)
{
	if (!vm->devices_resumed)
		resume_devices(vm);
	pthread_mutex_lock(&vm->lock);
	if (!vm->running && vm->end == VM_RUNNING)
		let_run(vm);
	pthread_mutex_unlock(&vm->lock);
}

int vm_pause(struct vm *vm, struct error *e)
{
	bool was_running;
	int r;

	pthread_mutex_lock(&vm->life);
	r = vm_stop_cpus(vm, &was_running, e);
	pthread_mutex_unlock(&vm->life);
	return r;
}

/* A timer that the host kept meanwhile may be early then; the guest's kernel sets it again.
 *
 * #calls main: ioctl(KVM_GET_CLOCK) */
int vm_freeze(struct vm *vm, struct error *e)
{
	struct kvm_clock_data clock;
	bool was_running;
	int r;

	pthread_mutex_lock(&vm->life);
	r = vm_stop_cpus(vm, &was_running, e);
	if (r == 0 && was_running && kvm_ioctl(vm->fd, KVM_GET_CLOCK, &clock) == 0)
		vm->frozen_ns = clock.clock; /* else it sees the time */
	pthread_mutex_unlock(&vm->life);
	return r;
}

/* #calls main: ioctl(KVM_SET_CLOCK) */
static void set_frozen_clock(struct vm *vm)
{
	struct kvm_clock_data clock = {.clock = vm->frozen_ns};

	if (vm->frozen_ns)
		(void)kvm_ioctl(vm->fd, KVM_SET_CLOCK, &clock); /* else it sees the time */
	vm->frozen_ns = 0;
}

void vm_resume(struct vm *vm)
{
	pthread_mutex_lock(&vm->life);
	set_frozen_clock(vm);
	vm_start_cpus(vm);
	pthread_mutex_unlock(&vm->life);
}
