/* Entry of a bare guest, its tables, and the little that has to run in kernel mode.
 *
 * Some hosts interpret a guest's kernel mode slowly and incompletely, so it is left at once: the
 * page tables (identity map of 4 GiB, open to user mode), GDT, IDT and TSSs are made by the
 * assembler. The tests run in ring 3, where both the I/O privilege level and the TSS open all ports
 * to them: such hosts ignore the level, and QEMU's emulation ignores the TSS once it was restored.
 * Interrupt handlers count, acknowledge and return; exceptions go on in ring 3 in
 * guest_exception(). */

#include "layout.h"

#define KERNEL_CODE 0x08
#define KERNEL_DATA 0x10
#define USER_DATA   0x1b
#define USER_CODE   0x23
#define TSS_FIRST   0x28

	.code64
	.section .fixed, "awx"

/* 256 entries of 16 bytes at 0x100000: exceptions, then interrupts. */
	.set vector, 0
	.rept 256
	.balign 16
	.if vector < 32
	.if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21)
	.else
	pushq $0
	.endif
	pushq $vector
	jmp exception
	.else
	pushq $vector
	jmp interrupt
	.endif
	.set vector, vector + 1
	.endr

/* TSSs at 0x101000, 128 bytes each: only rsp0 matters, the top of the CPU's kernel stack. */
	.balign 4096
	.set cpu, 0
	.rept GUEST_CPUS
	.long 0
	.quad GUEST_KERNEL_STACKS + (cpu + 1) * 4096
	.fill 90, 1, 0
	.word GUEST_PORT_MAP - (0x101000 + cpu * 128)
	.fill 24, 1, 0
	.set cpu, cpu + 1
	.endr

	.org GUEST_KERNEL_STACKS - 0x100000
	.fill GUEST_CPUS * 4096, 1, 0

	.org GUEST_PORT_MAP - 0x100000
	.fill 8192, 1, 0
	.fill 4096, 1, 0xff

	.globl idt
idt:	/* 0x106000 */
	.set vector, 0
	.rept 256
	.word (vector * 16) & 0xffff
	.word KERNEL_CODE
	.word 0x8e00
	.word 0x10
	.quad 0
	.set vector, vector + 1
	.endr

pml4:
	.quad pdpt + 7
	.fill 511, 8, 0
pdpt:
	.quad directories + 7
	.quad directories + 0x1007
	.quad directories + 0x2007
	.quad directories + 0x3007
	.fill 508, 8, 0
directories:
	.set page, 0
	.rept 2048
	.quad (page << 21) | 0x87
	.set page, page + 1
	.endr

gdt:
	.quad 0
	.quad 0x00af9b000000ffff /* kernel code */
	.quad 0x00cf93000000ffff /* kernel data */
	.quad 0x00cff3000000ffff /* user data */
	.quad 0x00affb000000ffff /* user code */
	.set cpu, 0
	.rept GUEST_CPUS
	.quad 0x0000891000000000 + ((0x1000 + cpu * 128) << 16) + GUEST_PORT_MAP - (0x101000 + cpu * 128) + 8192
	.quad 0
	.set cpu, cpu + 1
	.endr
gdt_end:

gdt_pointer:
	.word gdt_end - gdt - 1
	.quad gdt
idt_pointer:
	.word 256 * 16 - 1
	.quad idt

	.text

	.globl _start
_start:
	mov $GUEST_KERNEL_STACKS + 4096, %esp
	mov %rsi, guest_boot_params
	mov $pml4, %eax
	mov %rax, %cr3
	xor %edi, %edi
	mov $guest_main, %esi
/* edi: CPU number, esi: what to call in ring 3. */
enter_user:
	lgdt gdt_pointer
	lidt idt_pointer
	lea (,%rdi,2), %eax
	lea TSS_FIRST(,%rax,8), %eax
	ltr %ax
	mov %cr4, %rax
	or $0x600, %eax /* SSE */
	mov %rax, %cr4
	mov $1, %eax
	mov %edi, %r8d
	cpuid
	mov %r8d, %edi
	and $0x14000000, %ecx /* AVX and XSAVE */
	cmp $0x14000000, %ecx
	jne 1f
	mov %cr4, %rax
	or $0x40000, %eax
	mov %rax, %cr4
	xor %ecx, %ecx
	xor %edx, %edx
	mov $7, %eax
	xsetbv
	movl $1, guest_has_avx
1:	mov $GUEST_CPUS, %eax
	sub %edi, %eax
	shl $14, %eax
	lea user_stacks - 8(%rax), %rax
	pushq $USER_DATA
	push %rax
	pushq $0x3202 /* interrupts on, IOPL 3 */
	pushq $USER_CODE
	push %rsi
	iretq

/* From real mode; copied to GUEST_TRAMPOLINE. */
	.code16
	.globl trampoline, trampoline_end
trampoline:
	cli
	mov %cs, %ax
	mov %ax, %ds
	lgdtl trampoline_gdt - trampoline
	mov $0x20, %eax /* PAE */
	mov %eax, %cr4
	mov $pml4, %eax
	mov %eax, %cr3
	mov $0xc0000080, %ecx
	rdmsr
	or $0x100, %eax /* long mode */
	wrmsr
	mov $0x80000011, %eax
	mov %eax, %cr0
	ljmpl $KERNEL_CODE, $cpu_entry
	.balign 8
trampoline_gdt:
	.word gdt_end - gdt - 1
	.long gdt
trampoline_end:

	.code64
cpu_entry:
	mov $KERNEL_DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov cpu_starting, %edi
	mov %edi, %eax
	shl $12, %eax
	lea GUEST_KERNEL_STACKS + 4096(%rax), %rsp
	mov $cpu_main, %esi
	jmp enter_user

exception:
	cmpl $0, guest_halts
	jne halt
	cmpq $0, idle_count
	jne idle
	push %rax
	mov 8(%rsp), %rax
	mov %rax, exception_vector
	mov 16(%rsp), %rax
	mov %rax, exception_error
	mov 24(%rsp), %rax
	mov %rax, exception_rip
	mov %cr2, %rax
	mov %rax, exception_address
	movq $guest_exception, 24(%rsp)
	pop %rax
	add $16, %rsp
	iretq

interrupt:
	push %rax
	mov 8(%rsp), %rax
	lock incl interrupt_count(,%rax,4)
	mov $0xfee000b0, %eax /* end of interrupt */
	movl $0, (%rax)
	pop %rax
	add $8, %rsp
	iretq

/* Of interrupt_wait(). No interrupt can come between the comparison and the halt: the gate has turned them
 * off, and sti lets one more instruction pass. Goes on behind the ud2. */
idle:
	push %rax
	mov idle_count, %rax
	mov (%rax), %eax
	cmp %eax, idle_seen
	movq $0, idle_count
	jne 1f
	sti
	hlt
	cli
1:	pop %rax
	addq $2, 16(%rsp)
	add $16, %rsp
	iretq

/* For ever: the gate has turned interrupts off. */
halt:
	hlt
	jmp halt

	.bss
	.balign 64
user_stacks: /* the first CPU's last: it shares a page with the variables behind it */
	.fill GUEST_CPUS * 0x4000, 1, 0
