// Allocates in C from Go code, in every way in which the two call each other. Each way has a size of its own, so
// that a test can find it again (tests/integration/test_go_stacks.py has how many there are of each).
//
// cgo_calls        everything seven times, in six goroutines and in main
// cgo_calls loop   again and again in four goroutines, until its input ends
//
// Both print "whole" at the end.
package main

/*
#include <pthread.h>
#include <stdlib.h>

struct block {
	struct block *next;
};
static _Thread_local struct block *blocks;

extern void goBack(int size, int deep, int again);
extern void goFromThread(int size);

// The lists keep blocks reachable, so that no compiler leaves a call out.
static void keep(struct block *b)
{
	b->next = blocks;
	blocks = b;
}
static void freeAll(void)
{
	while (blocks) {
		struct block *b = blocks;
		blocks = b->next;
		free(b);
	}
}
__attribute__((noinline)) static void get(int size)
{
	keep(malloc((size_t)size));
	__asm__ volatile(""); // no call of keep in place of this function's end
}
// Before, in and after a call back into Go. rbp is the frame pointer of this one.
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void there(int size, int deep, int again)
{
	get(size);
	goBack(size + 1, deep, again);
	get(size + 2);
	__asm__ volatile("");
}
static void *thread(void *size)
{
	goFromThread((int)(size_t)size);
	freeAll();
	return NULL;
}
static void fromThread(int size)
{
	pthread_t id;
	if (!pthread_create(&id, NULL, thread, (void *)(size_t)size))
		pthread_join(id, NULL);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
)

//go:noinline
func direct() { C.get(1000) }

//go:noinline
func malloced() { C.free(C.malloc(1100)) }

// Its frames are large, so that the stack of its goroutine has to grow, and so moves.
//
//go:noinline
func deep(n int, size C.int) int {
	var space [200]byte
	if n == 0 {
		C.get(size)
		return 0
	}
	space[n%200] = 1
	return deep(n-1, size) + int(space[7])
}

//export goBack
//go:noinline
func goBack(size, n, again C.int) {
	deep(int(n), size)
	if again > 0 {
		C.there(size+10, 0, again-1)
	}
}

//export goFromThread
//go:noinline
func goFromThread(size C.int) { deep(3, size) }

//go:noinline
func callback(size, n, again C.int) { C.there(size, n, again) }

func everything() {
	for i := 0; i < 100; i++ {
		direct()
		malloced()
	}
	deep(500, 2000)
	callback(3000, 1, 0)
	callback(4000, 700, 0) // the stack moves while C waits
	callback(5000, 2, 3)   // C, Go, C, Go, ...
	C.fromThread(6000)     // a thread that Go did not make
	C.freeAll()
}

func round(goroutines int) {
	var all sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			runtime.LockOSThread() // the list of blocks is the thread's
			defer runtime.UnlockOSThread()
			everything()
			runtime.GC() // may make stacks smaller again
		}()
	}
	all.Wait()
}

func main() {
	if len(os.Args) > 1 {
		ended := make(chan bool)
		go func() {
			bufio.NewReader(os.Stdin).ReadString('\n')
			ended <- true
		}()
		for rounds := 0; ; rounds++ {
			select {
			case <-ended:
				fmt.Println("whole")
				return
			default:
				round(4)
			}
			if rounds == 0 {
				fmt.Println("ready")
			}
		}
	}
	round(6)
	everything()
	fmt.Println("whole")
}
