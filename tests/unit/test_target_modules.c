/* Modules and functions of running processes: this one, and programs compiled here that print where their functions
 * are and wait. What they print is what must be found. Some need root, and are skipped without. */
#include "attach/target_modules.h"
#include "attach/relocate.h"
#include "hosted/error.h"
#include "shell_in.h"
#include "unit_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static struct heft_error err;

static const char source[] = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
			     "#ifndef FIRST\n#define FIRST answer\n#define SECOND other\n#endif\n"
			     "int FIRST(int x) { return 2 * x + 40; }\n"
			     "int SECOND(int x) { return 2 * x + 48; }\n"
			     "#ifdef LIBRARY\n#define main started\n"
			     "static void start(void) __attribute__((constructor));\n#endif\n"
			     "static int twin(void) { return 1; }\n"
			     "int (*volatile uses)(void) = twin;\n"
			     "int main(void) {\n"
			     "	printf(\"%p %p\\n\", (void *)answer, (void *)malloc);\n"
			     "	fflush(stdout);\n	for (;;) pause();\n}\n"
			     "#ifdef LIBRARY\nstatic void start(void) { started(); }\n#endif\n";

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/heft-modules-XXXXXX");
	if (!mkdtemp(folder) || chmod(folder, 0777))
		return -1;
	char path[128];
	snprintf(path, sizeof path, "%s/still.c", folder);
	FILE *f = fopen(path, "w");
	fputs(source, f);
	fclose(f);
	shell_in(folder, "cc -O1 -o still still.c");
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	shell_in("/", "rm -rf %s", folder);
	return 0;
}

/* A program that waits, and what it has printed. */
struct running {
	pid_t pid;
	uint64_t answer, allocate;
};

/* prepare: run in the child before it becomes the program, NULL: nothing; false from it: cannot. */
static bool start(struct running *r, bool (*prepare)(void), const char *path, const char *preload)
{
	int out[2];
	char line[128] = "";
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	memset(r, 0, sizeof *r);
	r->pid = fork();
	if (r->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (chdir(folder) == 0 && (!prepare || prepare()))
			execl(path, path, (char *)NULL);
		_exit(99);
	}
	close(out[1]);
	for (size_t n = 0; n < sizeof line - 1 && !strchr(line, '\n'); n++)
		if (read(out[0], line + n, 1) != 1)
			break;
	close(out[0]);
	if (sscanf(line, "0x%lx 0x%lx", &r->answer, &r->allocate) == 2)
		return true;
	int status;
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	return false;
}

static void stop(const struct running *r)
{
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
}

/* Exactly one module has the address, and there `answer` is found. */
static void check_answer(const struct running *r, struct target_modules *m, bool program)
{
	uint64_t address, bytes;
	if (target_modules_read(m, r->pid, &err) < 0)
		fail_msg("%s", err.message);
	ssize_t module = target_module_at(m, r->answer);
	assert_true(module >= 0);
	if (target_symbol(m, (size_t)module, "answer", &address, &bytes, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(address, r->answer);
	assert_in_range(bytes, 4, 64);
	assert_int_equal(m->items[module].program, program);
	unsigned programs = 0;
	for (size_t i = 0; i < m->count; i++)
		programs += m->items[i].program;
	assert_int_equal(programs, 1);
}

static void check_program(const char *flags)
{
	struct running r;
	struct target_modules m;
	shell_in(folder, "cc -O1 %s -o made still.c", flags);
	assert_true(start(&r, NULL, "./made", NULL));
	check_answer(&r, &m, true);
	target_modules_fini(&m);
	stop(&r);
}

/* ---- this process */

static size_t own_module(struct target_modules *m, const void *address)
{
	if (target_modules_read(m, getpid(), &err) < 0)
		fail_msg("%s", err.message);
	ssize_t module = target_module_at(m, (uintptr_t)address);
	assert_true(module >= 0);
	return (size_t)module;
}

TEST(functions_of_libc_are_those_of_the_loader)
{
	struct target_modules m;
	size_t libc = own_module(&m, (void *)gnu_get_libc_version);
	void *handle = dlopen("libc.so.6", RTLD_NOW);
	/* realpath has two versions in two places; cfree is gone, but for old programs. */
	static const char *const names[] = {"malloc",  "free",    "calloc",   "realloc", "memalign",
					    "pvalloc", "dlclose", "realpath", "abs",     "none"};
	enum { COUNT = sizeof names / sizeof *names };
	struct target_function f[COUNT];
	assert_int_equal(target_functions(&m, libc, names, f, COUNT, &err), 0);
	for (unsigned i = 0; i < COUNT - 1; i++) {
		if (f[i].address != (uintptr_t)dlsym(handle, names[i]))
			fail_msg("%s", names[i]);
		assert_null(f[i].refused);
		assert_true(f[i].exported);
		assert_true(f[i].bytes > 0 && f[i].room >= f[i].bytes);
		assert_true(f[i].room < f[i].bytes + 4096 || f[i].bytes > 64);
		assert_true(target_may_export(&m, libc, names[i]));
	}
	assert_false(target_may_export(&m, libc, "none"));
	assert_false(target_may_export(&m, libc, "mallo"));
	assert_int_equal(f[COUNT - 1].address, 0);
	uint64_t address, bytes;
	assert_int_equal(target_symbol(&m, libc, "none", &address, &bytes, &err), HEFT_ENOTFOUND);
	assert_int_equal(target_symbol(&m, libc, "strlen", &address, &bytes, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "strlen is chosen at run time"));
	assert_int_equal(address, 0);
	/* A prefix of a name is another name. */
	assert_int_equal(target_symbol(&m, libc, "mallo", &address, &bytes, &err), HEFT_ENOTFOUND);
	dlclose(handle);
	target_modules_fini(&m);
}

TEST(files_that_are_only_read_are_no_modules)
{
	struct target_modules before, after;
	Dl_info info;
	assert_true(dladdr((void *)gnu_get_libc_version, &info));
	own_module(&before, (void *)gnu_get_libc_version);
	int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	void *map = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(map != MAP_FAILED);
	own_module(&after, (void *)gnu_get_libc_version);
	assert_int_equal(after.count, before.count);
	assert_int_equal(target_module_at(&after, (uintptr_t)map), -1);
	munmap(map, 1 << 20);
	close(fd);
	target_modules_fini(&before);
	target_modules_fini(&after);
}

TEST(an_object_that_is_loaded_twice_is_two_modules)
{
	struct target_modules m;
	char path[128];
	shell_in(folder, "printf 'int answer(int x) { return x; }' > twice.c && "
			 "cc -O1 -shared -fPIC -o twice.so twice.c");
	snprintf(path, sizeof path, "%s/twice.so", folder);
	void *one = dlopen(path, RTLD_NOW), *two = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	if (!one || !two)
		skip(); /* a sanitizer does not allow it */
	void *a = dlsym(one, "answer"), *b = dlsym(two, "answer");
	assert_ptr_not_equal(a, b);
	uint64_t address, bytes;
	size_t module = own_module(&m, a);
	assert_int_equal(target_symbol(&m, module, "answer", &address, &bytes, &err), 0);
	assert_int_equal(address, (uintptr_t)a);
	ssize_t other = target_module_at(&m, (uintptr_t)b);
	assert_true(other >= 0 && (size_t)other != module);
	assert_int_equal(target_symbol(&m, (size_t)other, "answer", &address, &bytes, &err), 0);
	assert_int_equal(address, (uintptr_t)b);
	target_modules_fini(&m);
	dlclose(one);
	dlclose(two);
}

/* ---- programs of all kinds */

TEST(a_usual_program)
{
	check_program("");
	check_program("-no-pie");
	check_program("-Wl,--build-id=none");
	check_program("-rdynamic -s"); /* without .symtab */
	check_program("-Wl,--hash-style=sysv");
}

/* Linked with these flags: whether "answer", which it has, and "malloc", which it calls, may be exported. */
static void check_exports(const char *flags, bool answer, bool allocate, bool stripped)
{
	struct running r;
	struct target_modules m;
	shell_in(folder, "cc -O1 %s -o made still.c", flags);
	assert_true(start(&r, NULL, "./made", NULL));
	assert_int_equal(target_modules_read(&m, r.pid, &err), 0);
	size_t module = (size_t)target_module_at(&m, r.answer);
	assert_int_equal(target_may_export(&m, module, "answer"), answer);
	assert_int_equal(target_may_export(&m, module, "malloc"), allocate);
	assert_int_equal(target_is_stripped(&m, module), stripped);
	target_modules_fini(&m);
	stop(&r);
}

TEST(what_a_program_exports)
{
	check_exports("-Wl,--hash-style=gnu", false, false, false);
	check_exports("-Wl,--hash-style=gnu -rdynamic", true, false, false);
	check_exports("-Wl,--hash-style=gnu -rdynamic -s", true, false, true);
	check_exports("-Wl,--hash-style=both -rdynamic", true, false, false);
	check_exports("-Wl,--hash-style=sysv", true, true, false); /* not known */
	check_exports("-static", true, true, false);
}

TEST(programs_with_segments_far_apart_or_at_an_address)
{
	check_program("-Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code");
	check_program("-Wl,-z,max-page-size=0x200000 -Wl,-z,noseparate-code");
	check_program("-no-pie -Wl,-Ttext-segment=0x70000000");
	check_program("-no-pie -Wl,-z,max-page-size=0x200000 -Wl,-Ttext-segment=0x40000000");
}

TEST(a_static_program)
{
	struct running r;
	struct target_modules m;
	static const char *const kinds[] = {"-static", "-static-pie"};
	for (unsigned i = 0; i < 2; i++) {
		uint64_t address, bytes;
		shell_in(folder, "cc -O1 %s -o fixed still.c", kinds[i]);
		assert_true(start(&r, NULL, "./fixed", NULL));
		check_answer(&r, &m, true);
		assert_int_equal(m.count, 1);
		assert_int_equal(target_symbol(&m, 0, "malloc", &address, &bytes, &err), 0);
		struct target_function f;
		static const char *const name[] = {"malloc"};
		assert_int_equal(target_functions(&m, 0, name, &f, 1, &err), 0);
		assert_true(f.address == address && !f.exported);
		assert_int_equal(address, r.allocate);
		target_modules_fini(&m);
		stop(&r);
	}
}

TEST(a_library_with_an_address)
{
	struct running r;
	struct target_modules m;
	shell_in(folder,
		 "cc -O1 -DLIBRARY -shared -fPIC -Wl,-Ttext-segment=0x3000000000 -o placed.so "
		 "still.c");
	char preload[128];
	snprintf(preload, sizeof preload, "%s/placed.so", folder);
	assert_true(start(&r, NULL, "./still", preload));
	check_answer(&r, &m, false);
	target_modules_fini(&m);
	stop(&r);
}

TEST(names_with_spaces_newlines_and_deleted_in_them)
{
	static const char *const names[] = {"with space", "line\nbreak", "x (deleted)",
					    "back\\012"};
	struct running r;
	struct target_modules m;
	for (unsigned i = 0; i < 4; i++) {
		char to[128], from[128], path[128];
		snprintf(from, sizeof from, "%s/still", folder);
		snprintf(to, sizeof to, "%s/%s", folder, names[i]);
		snprintf(path, sizeof path, "./%s", names[i]);
		assert_int_equal(link(from, to), 0);
		assert_true(start(&r, NULL, path, NULL));
		check_answer(&r, &m, true);
		target_modules_fini(&m);
		stop(&r);
		unlink(to);
	}
}

/* ---- files that are gone, or others by now */

TEST(an_executable_that_is_deleted_or_replaced)
{
	struct running r;
	struct target_modules m;
	shell_in(folder, "cp still gone");
	assert_true(start(&r, NULL, "./gone", NULL));
	shell_in(folder, "rm gone");
	check_answer(&r, &m, true);
	assert_true(m.items[target_module_at(&m, r.answer)].deleted);
	target_modules_fini(&m);
	/* Another program has its name now, with another `answer`. */
	shell_in(folder,
		 "(echo 'int before(int x) { return x * x * x; }'; cat still.c) > other.c && "
		 "cc -O0 -o gone other.c");
	check_answer(&r, &m, true);
	target_modules_fini(&m);
	stop(&r);
}

/* Runs a part of a test as a user without rights; in a process of its own, if this one has them. */
static void as_nobody(bool (*part)(void))
{
	if (getuid() != 0) {
		assert_true(part());
		return;
	}
	pid_t pid = fork();
	int status;
	if (pid == 0)
		_exit(setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1) ? 2 : !part());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* `answer` is found where it is; what is not exported would be in the file only. */
static bool find_answer(const struct running *r)
{
	struct target_modules m;
	struct target_function f[2];
	static const char *const names[] = {"answer", "twin"};
	if (target_modules_read(&m, r->pid, &err) < 0)
		return false;
	ssize_t module = target_module_at(&m, r->answer);
	bool fine = module >= 0 && m.items[module].deleted &&
		    target_functions(&m, (size_t)module, names, f, 2, &err) == 0 &&
		    f[0].address == r->answer && f[0].bytes > 0 && f[0].room >= f[0].bytes &&
		    f[1].address == 0;
	target_modules_fini(&m);
	return fine;
}

static bool find_after_deletion(void)
{
	struct running r;
	char gone[128], other[128];
	snprintf(gone, sizeof gone, "%s/gone.so", folder);
	snprintf(other, sizeof other, "%s/other.so", folder);
	if (!start(&r, NULL, "./still", gone) || unlink(gone))
		return false;
	bool deleted = find_answer(&r);
	/* Another library has that name now. */
	bool replaced = rename(other, gone) == 0 && find_answer(&r);
	stop(&r);
	if (!deleted || !replaced)
		fprintf(stderr, "deleted %d, replaced %d: %s\n", deleted, replaced, err.message);
	return deleted && replaced;
}

/* Without rights nobody can open what the kernel has mapped: exported functions come from memory. */
TEST(a_deleted_library_and_an_ordinary_user)
{
	static const char *const styles[] = {"--hash-style=gnu", "--hash-style=sysv",
					     "--hash-style=both", "--build-id=none"};
	for (unsigned i = 0; i < 4; i++) {
		shell_in(folder,
			 "cc -O1 -fno-toplevel-reorder -DLIBRARY -shared -fPIC -Wl,%s -o gone.so "
			 "still.c",
			 styles[i]);
		/* The same headers, but `answer` stands where the other function was. */
		shell_in(folder,
			 "cc -O1 -fno-toplevel-reorder -DLIBRARY -DFIRST=other -DSECOND=answer "
			 "-shared -fPIC -Wl,%s -o "
			 "other.so still.c",
			 styles[i]);
		as_nobody(find_after_deletion);
	}
}

/* With rights they come from the file all the same. */
TEST(a_deleted_library_and_root)
{
	struct running r;
	struct target_modules m;
	uint64_t address, bytes;
	char preload[128];
	if (getuid() != 0)
		skip();
	shell_in(folder, "cc -O1 -DLIBRARY -shared -fPIC -o gone.so still.c");
	snprintf(preload, sizeof preload, "%s/gone.so", folder);
	assert_true(start(&r, NULL, "./still", preload));
	shell_in(folder, "rm gone.so");
	check_answer(&r, &m, false);
	size_t module = (size_t)target_module_at(&m, r.answer);
	if (target_symbol(&m, module, "twin", &address, &bytes, &err) < 0)
		skip(); /* root without the right to open map_files, as in a container */
	assert_int_equal(target_module_at(&m, address), module);
	target_modules_fini(&m);
	stop(&r);
}

/* ---- other roots */

static bool enter_jail(void)
{
	return chroot("jail") == 0 && chdir("/") == 0;
}

TEST(a_program_in_a_root_of_its_own)
{
	struct running r;
	struct target_modules m;
	if (getuid() != 0)
		skip();
	shell_in(folder, "mkdir -p jail && cc -O1 -static -o jail/inside still.c");
	if (!start(&r, enter_jail, "/inside", NULL))
		skip();
	check_answer(&r, &m, true);
	target_modules_fini(&m);
	stop(&r);
}

/* Mounts that only the program sees. */
static bool hide_folder(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "hidden", "tmpfs", 0, NULL) == 0 &&
	       system("cc -O1 -o hidden/inside still.c") == 0;
}

TEST(a_program_with_mounts_of_its_own)
{
	struct running r;
	struct target_modules m;
	if (getuid() != 0)
		skip();
	shell_in(folder, "mkdir -p hidden");
	if (!start(&r, hide_folder, "hidden/inside", NULL))
		skip();
	check_answer(&r, &m, true);
	target_modules_fini(&m);
	stop(&r);
	assert_true(start(&r, hide_folder, "hidden/inside", NULL));
	/* There, where we look, another program has that name. */
	shell_in(folder, "cc -O0 -o hidden/inside still.c");
	check_answer(&r, &m, true);
	target_modules_fini(&m);
	stop(&r);
}

/* ---- strange programs */

TEST(processes_without_memory_or_without_being)
{
	struct target_modules m;
	assert_int_equal(target_modules_read(&m, INT_MAX, &err), HEFT_ENOTFOUND);
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	assert_true(target_modules_read(&m, pid, &err) < 0); /* a zombie */
	waitpid(pid, NULL, 0);
}

TEST(functions_in_several_places_are_refused)
{
	struct running r;
	struct target_modules m;
	uint64_t address, bytes;
	shell_in(folder, "echo 'static int twin(void) { return 2; } int (*volatile too)(void) = "
			 "twin;' > b.c "
			 "&& "
			 "cc -O1 -o pair still.c b.c");
	assert_true(start(&r, NULL, "./pair", NULL));
	check_answer(&r, &m, true);
	size_t module = (size_t)target_module_at(&m, r.answer);
	assert_int_equal(target_symbol(&m, module, "twin", &address, &bytes, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "twin stands in several places"));
	target_modules_fini(&m);
	stop(&r);
}

UNIT_TESTS(make_folder, remove_folder)
