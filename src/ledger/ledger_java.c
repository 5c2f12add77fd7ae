/* A Java virtual machine's heap and compiled code in a ledger. HotSpot carries a table for tools that look at it from
 * outside (gHotSpotVMStructs, exported by libjvm.so): where its variables are, and where fields are in its objects. Its
 * heap is where Universe::_collectedHeap->_reserved says; compiled code is between CodeCache::_low_bound and _high_bound.
 *
 * The table's own layout is in exported variables too, so that no version needs to be known. All that is read is the
 * program's to change: every number has a limit, and a wrong one claims pages for the wrong line at worst. */
#include "ledger/ledger_parts.h"

#include "attach/target_dynsym.h"
#include "hosted/program_name.h"

enum { ENTRIES_MOST = 20000, NAME = 64 };

/* Variables of libjvm.so that describe the table */
enum java_variable {
	TABLE,
	TYPE_OFFSET,
	FIELD_OFFSET,
	STATIC_OFFSET,
	OFFSET_OFFSET,
	ADDRESS_OFFSET,
	STRIDE,
	VARIABLES,
};
static const char *const variable_names[VARIABLES] = {
	[TABLE] = "gHotSpotVMStructs",
	[TYPE_OFFSET] = "gHotSpotVMStructEntryTypeNameOffset",
	[FIELD_OFFSET] = "gHotSpotVMStructEntryFieldNameOffset",
	[STATIC_OFFSET] = "gHotSpotVMStructEntryIsStaticOffset",
	[OFFSET_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
	[ADDRESS_OFFSET] = "gHotSpotVMStructEntryAddressOffset",
	[STRIDE] = "gHotSpotVMStructEntryArrayStride",
};

/* Fields that the ledger needs: their addresses, or their offsets if they are not static; 0: not found */
enum java_field { HEAP, RESERVED, REGION_START, REGION_WORDS, CODE_LOW, CODE_HIGH, FIELDS };
static const struct {
	const char *type, *name;
	bool is_static;
} field_names[FIELDS] = {
	[HEAP] = {"Universe", "_collectedHeap", true},
	[RESERVED] = {"CollectedHeap", "_reserved", false},
	[REGION_START] = {"MemRegion", "_start", false},
	[REGION_WORDS] = {"MemRegion", "_word_size", false},
	[CODE_LOW] = {"CodeCache", "_low_bound", true},
	[CODE_HIGH] = {"CodeCache", "_high_bound", true},
};

struct java {
	struct ledger_taking *t;
	const struct target_module *module;
	uint64_t variables[VARIABLES];
	uint64_t fields[FIELDS];
	bool found[FIELDS];
};

static void see_symbol(void *context, const struct image_symbol *symbol)
{
	struct java *j = context;
	if (!symbol->defined || strncmp(symbol->name, "gHotSpotVM", 10))
		return;
	for (size_t i = 0; i < VARIABLES; i++)
		if (!strcmp(symbol->name, variable_names[i]) &&
		    !ledger_read(j->t, j->module->image.bias + symbol->value, &j->variables[i], 8))
			j->variables[i] = 0;
}

/* The name that an entry points to; false: there is none. */
static bool read_name(struct java *j, uint64_t pointer_at, char name[NAME])
{
	uint64_t at;
	memset(name, 0, NAME);
	if (!ledger_read(j->t, pointer_at, &at, sizeof at) || !at)
		return false;
	/* It may end right before memory that is not there. */
	return ledger_read(j->t, at, name, NAME - 1) || ledger_read(j->t, at, name, 16);
}

static void take_entry(struct java *j, uint64_t at, const char *type, const char *name)
{
	const uint64_t *v = j->variables;
	for (size_t i = 0; i < FIELDS; i++) {
		uint32_t is_static;
		if (strcmp(type, field_names[i].type) || strcmp(name, field_names[i].name) ||
		    !ledger_read(j->t, at + v[STATIC_OFFSET], &is_static, sizeof is_static) ||
		    !is_static == field_names[i].is_static)
			continue;
		j->found[i] = ledger_read(j->t, at + v[is_static ? ADDRESS_OFFSET : OFFSET_OFFSET],
					  &j->fields[i], sizeof j->fields[i]);
	}
}

static bool read_table(struct java *j)
{
	const uint64_t *v = j->variables;
	for (size_t i = TYPE_OFFSET; i < VARIABLES; i++)
		if (v[i] > 4096)
			return false;
	for (unsigned i = 0; v[TABLE] && v[STRIDE] && i < ENTRIES_MOST; i++) {
		char type[NAME], name[NAME];
		uint64_t at = v[TABLE] + i * v[STRIDE];
		if (!read_name(j, at + v[TYPE_OFFSET], type))
			return true; /* the end */
		if (read_name(j, at + v[FIELD_OFFSET], name))
			take_entry(j, at, type, name);
	}
	return false;
}

static bool claim_heap(struct java *j)
{
	uint64_t heap, start, words;
	if (!j->found[HEAP] || !j->found[RESERVED] || !j->found[REGION_START] ||
	    !j->found[REGION_WORDS] || !ledger_read(j->t, j->fields[HEAP], &heap, sizeof heap))
		return true;
	uint64_t region = heap + j->fields[RESERVED];
	if (!heap || !ledger_read(j->t, region + j->fields[REGION_START], &start, sizeof start) ||
	    !ledger_read(j->t, region + j->fields[REGION_WORDS], &words, sizeof words) ||
	    words > UINT64_C(1) << 44)
		return true;
	return ledger_claim_anonymous(j->t, start, start + words * 8, LEDGER_ALLOCATOR,
				      "Java's heap");
}

static bool claim_code(struct java *j)
{
	uint64_t low, high;
	if (!j->found[CODE_LOW] || !j->found[CODE_HIGH] ||
	    !ledger_read(j->t, j->fields[CODE_LOW], &low, sizeof low) ||
	    !ledger_read(j->t, j->fields[CODE_HIGH], &high, sizeof high))
		return true;
	return ledger_claim_anonymous(j->t, low, high, LEDGER_ALLOCATOR,
				      "code that Java's compiler made");
}

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return ledger_read(context, at, to, bytes);
}

bool ledger_java_claim(struct ledger_taking *t)
{
	const struct target_memory memory = {read_memory, t};
	for (size_t i = 0; i < t->modules.count; i++) {
		struct java j = {.t = t, .module = &t->modules.items[i]};
		if (!strcmp(path_file(j.module->path), "libjvm.so") &&
		    target_dynsym_each(&j.module->image, &memory, see_symbol, &j) && read_table(&j))
			return claim_heap(&j) && claim_code(&j);
	}
	return true;
}
