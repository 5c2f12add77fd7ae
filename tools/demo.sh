#!/bin/sh
# Profiles the CSV example and prints its report. `make demo` runs this.
set -eu
build=${1:-build}
work=$build/demo
mkdir -p "$work"
"$build/examples/csv_make" >"$work/example.csv"

show() {
	echo "\$ $*"
	shift
	"$build/heft" "$@"
}
rm -f "$work/csv_rows.heft"
show heft run -o "$work/csv_rows.heft" "$build/examples/csv_rows" "$work/example.csv"
echo
show heft report "$work/csv_rows.heft"
echo
! grep -q 'web/heft\.html' "$build/build.ninja" ||
	echo "$build/heft view $work/csv_rows.heft shows it in a browser."
echo "docs/scenario-csv.md says how to read this and what to change in the program."
