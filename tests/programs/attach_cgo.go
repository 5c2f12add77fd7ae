// Four goroutines that call C's malloc and free in a tight loop, and check what their blocks hold. The file has
// attach_life.h's numbers: progress, stop, ready. attach_cgo FILE
package main

/*
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

type life struct{ progress, stop, ready uint64 }

func must(good bool, what string) {
	if !good {
		fmt.Fprintln(os.Stderr, what)
		os.Exit(1)
	}
}

func work(l *life, seed int) {
	for i := seed; atomic.LoadUint64(&l.stop) == 0; i++ {
		size := 1 + i%3000
		block := C.calloc(1, C.size_t(size))
		bytes := unsafe.Slice((*byte)(block), size)
		must(bytes[0] == 0 && bytes[size-1] == 0, "calloc did not clear")
		bytes[0], bytes[size-1] = byte(i), byte(i)
		held := make([]byte, size)
		block = C.realloc(block, C.size_t(2*size))
		bytes = unsafe.Slice((*byte)(block), 2*size)
		must(bytes[0] == byte(i) && bytes[size-1] == byte(i) && len(held) == size, "a block does not hold what was written")
		C.free(block)
		atomic.AddUint64(&l.progress, 1)
	}
}

func main() {
	file, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	must(err == nil, "no file for the progress")
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(err == nil, "no map for the progress")
	l := (*life)(unsafe.Pointer(&memory[0]))
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func(seed int) {
			defer all.Done()
			work(l, seed)
		}(i * 1000)
	}
	atomic.StoreUint64(&l.ready, 1)
	all.Wait()
	fmt.Println("right")
}
