/* Loads every register that ring 3 has with what registers_in says, waits until the harness answers
 * with stage 1 in the mailbox, and stores them all into registers_out. Layout of both: 16 general
 * registers in the CPU's order, 16 vectors of 32 bytes, one x87 value of 8 bytes, MXCSR, flags. */

#include "layout.h"

	.code64
	.text
	.globl hold_registers
hold_registers:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, saved_stack
	fninit
	fldl registers_in + 640
	ldmxcsr registers_in + 648
	testl $1, guest_has_avx
	jz 1f
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovups registers_in + 128 + 32 * \n, %ymm\n
	.endr
	jmp 2f
1:
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	movups registers_in + 128 + 32 * \n, %xmm\n
	.endr
2:
	mov registers_in, %rax
	mov registers_in + 8, %rcx
	mov registers_in + 16, %rdx
	mov registers_in + 24, %rbx
	mov registers_in + 32, %rsp
	mov registers_in + 40, %rbp
	mov registers_in + 48, %rsi
	mov registers_in + 56, %rdi
	.irp n, 8,9,10,11,12,13,14,15
	mov registers_in + 8 * \n, %r\n
	.endr
	movl $1, GUEST_MAILBOX
	std
3:	pause
	cmpl $1, GUEST_MAILBOX + 4
	jne 3b
	mov %rax, registers_out
	mov %rcx, registers_out + 8
	mov %rdx, registers_out + 16
	mov %rbx, registers_out + 24
	mov %rsp, registers_out + 32
	mov %rbp, registers_out + 40
	mov %rsi, registers_out + 48
	mov %rdi, registers_out + 56
	.irp n, 8,9,10,11,12,13,14,15
	mov %r\n, registers_out + 8 * \n
	.endr
	mov saved_stack, %rsp
	pushfq
	popq registers_out + 656
	cld
	fstpl registers_out + 640
	stmxcsr registers_out + 648
	testl $1, guest_has_avx
	jz 4f
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovups %ymm\n, registers_out + 128 + 32 * \n
	.endr
	vzeroupper
	jmp 5f
4:
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	movups %xmm\n, registers_out + 128 + 32 * \n
	.endr
5:
	movl $0x1f80, saved_stack
	ldmxcsr saved_stack
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret

	.bss
	.balign 32
	.globl registers_in, registers_out
registers_in:
	.fill 704, 1, 0
registers_out:
	.fill 704, 1, 0
saved_stack:
	.quad 0
