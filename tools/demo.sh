#!/bin/sh
# Profiles the CSV example and prints its report: what `make demo` shows.
set -eu
build=${1:-build}
work=$build/demo
mkdir -p "$work"
"$build/examples/csv_make" >"$work/example.csv"
show() {
	echo "\$ $*"
}
show heft run -o "$work/csv_rows.heft" "$build/examples/csv_rows" "$work/example.csv"
"$build/heft" run --force -o "$work/csv_rows.heft" "$build/examples/csv_rows" "$work/example.csv"
echo
show heft report "$work/csv_rows.heft"
"$build/heft" report "$work/csv_rows.heft"
