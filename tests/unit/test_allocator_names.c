/* Names of functions by which linked-in allocators are known: one for each rule, as compilers write them, and names that
 * only look similar. */
#include "session/allocator_names.h"
#include "unit_test.h"

#include <string.h>

static unsigned parts_of(const char *name)
{
	struct allocator_names n = {0};
	unsigned parts = 0;
	allocator_names_see(&n, name, strlen(name));
	for (size_t i = 0; i < sizeof n.seen / sizeof *n.seen; i++)
		parts |= n.seen[i].parts;
	return parts;
}

static void expect(unsigned parts, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (parts_of(names[i]) != parts)
			fail_msg("%s: %u, not %u", names[i], parts_of(names[i]), parts);
}
#define EXPECT(parts, ...)                                                                         \
	do {                                                                                       \
		static const char *const list[] = {__VA_ARGS__};                                   \
		expect(parts, list, sizeof list / sizeof *list);                                   \
	} while (0)

TEST(test_marks)
{
	EXPECT(ALLOCATOR_MARK, "mallctlbymib", "_rjem_mallctlbymib", "je_arena_malloc_hard",
	       "_rjem_je_tcache_alloc_small_hard", "_mi_malloc_generic", "_mi_heap_malloc_zero_ex",
	       "TCMallocInternalMalloc", "_ZN8tcmalloc8PageHeap3NewEm",
	       "_ZN8tcmalloc11ThreadCache4InitE", "_ZN8tcmalloc15CentralFreeList8PopulateEv",
	       "_ZN8tcmalloc17tcmalloc_internal8PageHeap3NewEm", "sn_rust_dealloc",
	       "_ZN8snmalloc4PoolE", "_ZN5scudo9AllocatorINS_1E",
	       "_ZN15partition_alloc13PartitionRoot4InitEv", "_ZN7bmalloc5CacheE",
	       "pas_try_allocate_intrinsic", "_ZN8dlmalloc8dlmalloc17Dlmalloc$LT$A$GT$6malloc17h0E",
	       "_RNvMs_NtCs1_8dlmalloc8dlmallocINtB4_8Dlmalloc6malloc",
	       "_ZN4core3ptr31drop$LT$8dlmalloc8dlmalloc$GT$17h1E");
	EXPECT(ALLOCATOR_MARK | ALLOCATOR_TAKES, "je_malloc", "_rjem_malloc", "moz_arena_malloc",
	       "scudo_malloc", "scudo_allocate", "sn_rust_alloc_zeroed");
}

TEST(test_functions)
{
	EXPECT(ALLOCATOR_TAKES, "mallocx", "zz_mallocx", "_rjem_rallocx", "je_calloc",
	       "_rjem_calloc", "mi_malloc_aligned", "mi_zalloc", "mi_calloc", "mi_realloc_aligned",
	       "mi_rezalloc", "mi_heap_malloc", "mi_heap_zalloc", "mi_theap_malloc", "mi_new",
	       "mi_new_nothrow", "mi_new_aligned", "mi_aligned_alloc", "mi_posix_memalign",
	       "mi_memalign", "tc_malloc", "tc_new", "tc_newarray", "tc_calloc", "tc_realloc",
	       "tc_memalign", "sn_malloc", "sn_calloc", "rpmalloc", "rpcalloc", "rprealloc",
	       "rpaligned_alloc", "rpmemalign", "scalable_malloc", "scalable_aligned_malloc",
	       "scalable_realloc", "xxmalloc");
	EXPECT(ALLOCATOR_GIVES, "sdallocx", "zz_dallocx", "je_free", "_rjem_free", "mi_free_size",
	       "mi_cfree", "tc_free", "tc_free_sized", "tc_delete", "tc_deletearray", "sn_free",
	       "rpfree", "scalable_free", "scalable_aligned_free", "xxfree");
	EXPECT(ALLOCATOR_DUMPS, "je_prof_dump_impl", "_rjem_je_prof_mdump", "HeapProfilerStart");
}

TEST(test_others)
{
	EXPECT(0, "", "m", "malloc", "free", "_Z", "_ZN", "_ZN8", "_ZN8tcmallo", "_ZN8dlmalloc",
	       "_ZN2v88internal8compiler9Operator1INS1_15ForInParametersEED1Ev", "mi_mall",
	       "xmalloc", "je_mallocs", "mallctl", "tc_malloc2", "_ZN5scudo8Allocator");
}

UNIT_TESTS(NULL, NULL)
