/* The call tree over stacks that are written down here, with sums worked out by hand. */
#include "profile/call_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A profile of stacks: names from the outermost frame in, with spaces between. A name in brackets is of
 * the runtime; "f:3" is a call from line 3 of f. */
static void add_stack(struct profile *p, const char *stack, uint64_t peak_bytes)
{
	char text[200], *rest = NULL;
	uint32_t module = 0, node = PROFILE_NONE, site;
	strcpy(text, stack);
	if (!p->stacks.module_count)
		assert_int_equal(profile_add_module(p, "/bin/prog", NULL, 0, &module), 0);
	for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
		char *line = strchr(name, ':');
		struct profile_frame f = {.module = module,
					  .line = line ? (uint32_t)atoi(line + 1) : 0};
		uint32_t frame;
		if (line)
			*line = 0;
		f.function = name_pool_add(p->names, name);
		f.file = name_pool_add(p->names, "/prog.c");
		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		p->stacks.frames[frame].user = *name != '[';
		assert_int_equal(profile_add_node(p, node, frame, 0, &node), 0);
	}
	assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &site), 0);
	p->sites[site].peak_bytes += peak_bytes;
}

/* "main=30/0 f=20/20 ...": total and self of each call, a level in brackets, "*" where it is recursive. */
static void expect_tree(const struct call_tree *t, uint32_t root, const bool *kept,
			const char *expected)
{
	char text[1000] = "";
	struct call_walk w = {.t = t, .root = root, .kept = kept};
	while (call_walk_step(&w)) {
		size_t at = strlen(text);
		const struct call_node *n = &t->nodes[w.node];
		if (!w.left)
			snprintf(text + at, sizeof text - at, "%s%s=%lu/%lu%s(", at ? " " : "",
				 w.node ? call_tree_name(t, w.node) : "all", n->total, n->self,
				 n->recursive ? "*" : "");
		else
			snprintf(text + at, sizeof text - at, "%s)",
				 w.rest < t->first[w.node + 1] ? " ..." : "");
	}
	assert_string_equal(text, expected);
}

static struct profile *new_profile(void)
{
	struct profile *p = profile_new();
	assert_non_null(p);
	add_stack(p, "main:1 f:5 [malloc]", 10);
	add_stack(p, "main:2 g:7 [malloc]", 50);
	add_stack(p, "main:2 g:8 f:5", 50);
	add_stack(p, "main:3 f:6", 25);
	add_stack(p, "", 5); /* a stack that is not known */
	add_stack(p, "main:4 h:9", 0);
	return p;
}

static void expect_shape(const struct profile *p, unsigned options, const char *expected)
{
	struct call_tree t;
	assert_int_equal(call_tree_of(&t, p, MEASURE_PEAK_BYTES, options), 0);
	expect_tree(&t, 0, NULL, expected);
	call_tree_fini(&t);
}

static void test_shapes(void **state)
{
	(void)state;
	struct profile *p = new_profile();
	/* g has 50 of its own stack and 50 through f; the other f has 10 and 25. Nothing is of h. */
	expect_shape(p, 0,
		     "all=140/0( main=135/0( g=100/0( [malloc]=50/50() f=50/50()) "
		     "f=35/25( [malloc]=10/10())) [stack unknown]=5/5())");
	/* The first of equal ones is the one whose stack is greatest or stands first. */
	expect_shape(p, CALL_TREE_INVERTED,
		     "all=140/0( f=75/0( g=50/0( main=50/50()) main=25/25()) "
		     "[malloc]=60/0( g=50/0( main=50/50()) f=10/0( main=10/10())) [stack "
		     "unknown]=5/5())");
	expect_shape(
		p, CALL_TREE_USER,
		"all=140/0( main=135/0( g=100/50( f=50/50()) f=35/35()) [stack unknown]=5/5())");
	expect_shape(p, CALL_TREE_PLACES,
		     "all=140/0( main=100/0( g=50/0( [malloc]=50/50()) g=50/0( f=50/50())) "
		     "main=25/0( f=25/25()) main=10/0( f=10/0( [malloc]=10/10())) [stack "
		     "unknown]=5/5())");
	profile_free(p);
}

static void test_recursion(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	/* The second even goes on from the first, from which odd is the call that is there. */
	add_stack(p, "main even odd even odd leaf", 8);
	add_stack(p, "main even leaf", 4);
	add_stack(p, "[start] [malloc]",
		  2); /* nothing of the user's: its innermost stands for it */
	expect_shape(p, CALL_TREE_MERGED | CALL_TREE_USER,
		     "all=14/0( main=12/0( even=12/0*( odd=8/0( leaf=8/8()) leaf=4/4())) "
		     "[malloc]=2/2())");
	profile_free(p);
}

static void test_parts(void **state)
{
	(void)state;
	struct profile *p = new_profile();
	struct call_tree t;
	struct call_stacks s;
	uint64_t values[8] = {0};
	uint32_t left_out, function;
	assert_int_equal(call_tree_init(&t, CALL_TREE_DETAILS, 3), 0);
	assert_int_equal(call_stacks_init(&s, &t, p, values), 0);
	/* A tree of three calls: main, g, [malloc]. The second stack leaves it at g, the third at main. */
	struct call_amount amount = {.value = 50, .before = 7, .blocks = 2, .lifetimes = 20};
	assert_int_equal(call_tree_add(&t, &s, p->sites[1].node, PROFILE_NONE, &amount), 0);
	amount.value = 40;
	assert_int_equal(call_tree_add(&t, &s, p->sites[2].node, PROFILE_NONE, &amount), 0);
	amount.value = 10;
	assert_int_equal(call_tree_add(&t, &s, p->sites[0].node, PROFILE_NONE, &amount), 0);
	/* Up to main, without it: g is next to the root, but has no place any more. */
	uint32_t main_node = p->stacks.nodes[p->stacks.nodes[p->sites[1].node].parent].parent;
	assert_int_equal(call_tree_add(&t, &s, p->sites[1].node, main_node, &amount), 0);
	assert_int_equal(call_tree_finish(&t), 0);
	expect_tree(&t, 0, NULL, "all=110/0( main=100/0( g=90/0( [malloc]=50/50())))");
	assert_int_equal(t.details[0].cut, 10);
	assert_int_equal(t.details[1].cut, 10);
	assert_int_equal(t.details[2].cut, 40);
	assert_int_equal(t.details[2].cut_stacks, 1);
	assert_int_equal(t.details[1].before, 21);
	assert_int_equal(t.details[2].before, 14);
	assert_int_equal(t.nodes[0].stacks, 4);
	assert_true(t.details[2].lifetimes == 40 && t.details[2].blocks == 4);
	call_stacks_fini(&s);
	call_tree_fini(&t);

	/* Below a call that all stacks begin with. */
	assert_int_equal(call_tree_init(&t, 0, CALL_TREE_ANY_SIZE), 0);
	assert_int_equal(call_stacks_init(&s, &t, p, values), 0);
	struct profile_label label = {.key = PROFILE_LABEL_PROCESS, .text = "sh (2 processes)"};
	struct profile_label_set set = {.labels = &label, .count = 1};
	assert_int_equal(call_functions_add_process(&t.functions, &set, &t.outermost), 0);
	assert_int_equal(call_tree_add(&t, &s, p->sites[3].node, PROFILE_NONE, &amount), 0);
	t.outermost = PROFILE_NONE;
	amount.value = 3;
	assert_int_equal(call_tree_add(&t, &s, p->sites[3].node, PROFILE_NONE, &amount), 0);
	assert_int_equal(call_functions_add_process(&t.functions, &set, &function), 0);
	assert_int_equal(function, t.nodes[1].function);
	assert_int_equal(call_tree_finish(&t), 0);
	expect_tree(&t, 0, NULL,
		    "all=13/0( sh (2 processes)=10/0( main=10/0( f=10/10())) main=3/0( f=3/3()))");
	bool *kept = call_tree_keep(&t, 0, 2, 1, &left_out);
	expect_tree(&t, 0, kept, "all=13/0( sh (2 processes)=10/0( main=10/0( ...)) ...)");
	assert_int_equal(left_out, 3); /* f, main and f */
	free(kept);
	kept = call_tree_keep(&t, 1, 9, 11, &left_out);
	expect_tree(&t, 1, kept, "sh (2 processes)=10/0( ...)");
	assert_int_equal(left_out, 0);
	free(kept);
	call_stacks_fini(&s);
	call_tree_fini(&t);
	profile_free(p);
}

static void test_saturates(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	add_stack(p, "main f", UINT64_MAX - 1);
	add_stack(p, "main g", 7);
	expect_shape(p, 0,
		     "all=18446744073709551615/0( main=18446744073709551615/0( "
		     "f=18446744073709551614/18446744073709551614() g=7/7()))");
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_saturates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
