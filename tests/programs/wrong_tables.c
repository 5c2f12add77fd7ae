/* Calls malloc(100) ten times from a function whose unwind table is wrong: it leads to words that are no code addresses. Then
 * right_tables() calls malloc(200) five times. */
#include <stdlib.h>

void *wrong_tables(void);
__asm__(".text\n"
	".globl wrong_tables\n"
	".type wrong_tables, @function\n"
	"wrong_tables:\n\t"
	".cfi_startproc\n\t"
	"push $-1\n\t" /* the table takes this for the return address */
	".cfi_def_cfa_offset 8\n\t"
	"mov $100, %edi\n\t"
	"sub $8, %rsp\n\t"
	".cfi_def_cfa_offset 16\n\t"
	"sub $8, %rsp\n\t"
	".cfi_def_cfa_offset 24\n\t"
	"call malloc@PLT\n\t"
	"add $24, %rsp\n\t"
	".cfi_def_cfa_offset 8\n\t"
	"ret\n\t"
	".cfi_endproc\n"
	".size wrong_tables, . - wrong_tables\n");

static void *volatile kept;

__attribute__((noinline)) static void right_tables(void)
{
	for (int i = 0; i < 5; i++)
		kept = malloc(200);
}

int main(void)
{
	for (int i = 0; i < 10; i++)
		kept = wrong_tables();
	right_tables();
	return 0;
}
