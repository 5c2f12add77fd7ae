/* With RTLD_DEEPBIND the loader looks a library's symbols up in the object that
 * dlopen was called for and in its dependencies, breadth first, before anything else.
 * That object is the library itself or one that needs it. We cannot know which; so we
 * try all of them, and the answer is known only if they agree.
 *
 * Dependencies are named (DT_NEEDED). We find them among the loaded objects by file
 * name or DT_SONAME. If one is not found, the answer is unknown. */
#include "capture/scope.h"
#include "capture/linkage.h"

#include <link.h>
#include <string.h>

enum { MOST = 256 }; /* objects of one scope: 2 KiB of the stack of whoever called dlopen */

static int linkage(const struct link_map *map, struct heft_object *o, struct heft_linkage *l)
{
	return heft_object_at((uintptr_t)map->l_ld, o) || o->map != map || heft_linkage_of(o, l)
		       ? -1
		       : 0;
}

static int is_called(const struct link_map *map, const char *name)
{
	const char *file = map->l_name ? strrchr(map->l_name, '/') : NULL;
	struct heft_object o;
	struct heft_linkage l;
	if (map->l_name && (!strcmp(map->l_name, name) || (file && !strcmp(file + 1, name))))
		return 1;
	if (linkage(map, &o, &l))
		return 0;
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SONAME)
			return !strcmp(l.strings + d->d_un.d_val, name);
	return 0;
}

static const struct link_map *called(const struct link_map *first, const char *name)
{
	const struct link_map *m = first;
	while (m && !is_called(m, name))
		m = m->l_next;
	return m;
}

/* The objects of root's scope in order; how many, or 0: not known. */
static unsigned list_scope(const struct link_map *root, const struct link_map *first,
			   const struct link_map *scope[MOST])
{
	unsigned count = 1;
	scope[0] = root;
	for (unsigned i = 0; i < count; i++) {
		struct heft_object o;
		struct heft_linkage l;
		if (linkage(scope[i], &o, &l))
			return 0;
		for (const Elf64_Dyn *d = scope[i]->l_ld; d->d_tag != DT_NULL; d++) {
			if (d->d_tag != DT_NEEDED)
				continue;
			const struct link_map *m = called(first, l.strings + d->d_un.d_val);
			unsigned k = 0;
			while (k < count && scope[k] != m)
				k++;
			if (!m || (k == count && count == MOST))
				return 0;
			if (k == count)
				scope[count++] = m;
		}
	}
	return count;
}

int heft_scope_leads_to(const struct link_map *library, const char *name,
			const struct link_map *owner, const struct link_map *first,
			const struct link_map *last_at_start)
{
	const struct link_map *scope[MOST];
	for (const struct link_map *root = last_at_start->l_next; root; root = root->l_next) {
		unsigned count = list_scope(root, first, scope), i = 0, member = 0;
		struct heft_object o;
		while (member < count && scope[member] != library)
			member++;
		if (count && member == count)
			continue; /* this one does not need the library */
		while (i < count && (heft_object_at((uintptr_t)scope[i]->l_ld, &o) ||
				     o.map != scope[i] || !heft_defined_at(&o, name)))
			i++;
		if (i == count || scope[i] != owner)
			return 0;
	}
	return 1;
}
