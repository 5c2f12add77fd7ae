/* Around the program's main: what is to happen when it returns, before any exit handler
 * runs. libc's own start calls main and then exit, inside itself, where nothing can be
 * interposed. So main is wrapped when it is handed to libc.
 *
 * The wrapper has a frame on the stack, which no call stack of a recording shows: the
 * unwinder steps over it (CFI_ROW_MAIN). Its tables are right for everybody else, such
 * as exceptions and debuggers. The frame is 16 bytes: a word for main's result, and the
 * return address. The start itself is left by a jump and has no frame. */
#include "capture/main_frame.h"

#include <dlfcn.h>

typedef int start_fn(void);
static __attribute__((used)) int (*heft_real_main)(int, char **, char **);

/* Keeps main. Returns libc's start. */
static __attribute__((used)) start_fn *heft_begin_main(int (*main)(int, char **, char **))
{
	struct heft_own_work work = heft_own_work_begin();
	heft_real_main = main;
	start_fn *next = (start_fn *)heft_next_symbol("__libc_start_main");
	heft_own_work_end(work);
	return next;
}

__asm__(".text\n"
	".globl __libc_start_main\n"
	".type __libc_start_main, @function\n"
	"__libc_start_main:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	push %rcx\n"
	"	push %r8\n"
	"	push %r9\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 56\n"
	"	call heft_begin_main\n"
	"	add $8, %rsp\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rcx\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -56\n"
	"	lea heft_main(%rip), %rdi\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size __libc_start_main, . - __libc_start_main\n"
	"\n"
	".type heft_main, @function\n"
	"heft_main:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call *heft_real_main(%rip)\n"
	".globl heft_main_returned\n"
	".hidden heft_main_returned\n"
	"heft_main_returned:\n"
	"	mov %eax, (%rsp)\n"
	"	call heft_ledger_at_exit\n"
	"	mov (%rsp), %eax\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size heft_main, . - heft_main\n");
