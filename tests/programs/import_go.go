// Writes Go's heap and allocs profiles, every allocation sampled.
//   keep    100 slices of 10240 bytes, live (and the growing slice of them)
//   churn    50 slices of 3072 bytes, garbage
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]byte
var sink []byte

//go:noinline
func keep(n, size int) {
	kept = make([][]byte, n)
	for i := 0; i < n; i++ {
		kept[i] = make([]byte, size)
	}
}

//go:noinline
func churn(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, 3072)
	}
}

func main() {
	runtime.MemProfileRate = 1
	keep(100, 10240)
	churn(50)
	sink = nil
	runtime.GC()
	runtime.GC()
	for _, name := range []string{"heap", "allocs"} {
		f, err := os.Create(os.Args[1] + "/" + name + ".pprof")
		if err != nil {
			panic(err)
		}
		pprof.Lookup(name).WriteTo(f, 0)
		f.Close()
	}
}
