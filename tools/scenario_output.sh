#!/bin/sh
# Reruns the commands shown in the documentation and puts their real output in its place.
#   scenario_output.sh [PAGE...]      default: docs/scenario-*.md and README.md
# HEFT_BUILD names the build directory (default: build beside this folder). The pages use jq too.
#
# A page says what to run, and the script rewrites everything up to the end mark:
#     <!-- output: heft run -o queue.heft ./queue -->
#     <!-- end -->
# Commands run in a directory of the page's own, with heft on the PATH and the examples beside them,
# so that the paths are those that a reader would see. Names of source files begin at the top of the
# tree. The script leaves a page as it was if a command fails (137 is not a failure: something was
# killed), if its output has a path of this machine in it, or if an example is missing.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${HEFT_BUILD:-$root/build}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$build:$PATH
LC_ALL=C
DEBUGINFOD_URLS=
export PATH LC_ALL DEBUGINFOD_URLS

fail() {
	echo "scenario_output: $*" >&2
	exit 1
}

# show PAGE COMMAND: prints the command and its output as a block.
show() {
	status=0
	(cd "$scratch/work" && exec sh -c "$2") >"$scratch/raw" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 0 ] && [ "$status" -ne 137 ]; then
		cat "$scratch/raw" >&2
		fail "$1: status $status: $2"
	fi
	sed -e "s|$scratch/work/||g" -e 's|[^ ]*/examples/\([a-z_/]*\.[cr]\)|examples/\1|g' \
		-e 's/[[:space:]]*$//' "$scratch/raw" >"$scratch/clean"
	if grep -nE "$scratch|$root|/(home|root|tmp)/" "$scratch/clean" >&2; then
		fail "$1: a path of this machine in the output of: $2"
	fi
	printf '```console\n$ %s\n' "$2"
	cat "$scratch/clean"
	printf '```\n'
}

refresh() {
	rm -rf "$scratch/work"
	mkdir "$scratch/work"
	for program in "$build"/examples/*; do
		if [ -f "$program" ] && [ -x "$program" ]; then
			ln -s "$program" "$scratch/work/"
		fi
	done
	command=
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in
		'<!-- output: '*' -->')
			[ -z "$command" ] || fail "$1: no end mark after: $command"
			command=${line#'<!-- output: '}
			command=${command%' -->'}
			printf '%s\n' "$line"
			show "$1" "$command"
			;;
		'<!-- end -->')
			[ -n "$command" ] || fail "$1: an end mark without a beginning"
			command=
			printf '%s\n' "$line"
			;;
		*)
			[ -n "$command" ] || printf '%s\n' "$line"
			;;
		esac
	done <"$1" >"$scratch/page"
	[ -z "$command" ] || fail "$1: no end mark after: $command"
	cmp -s "$scratch/page" "$1" || cat "$scratch/page" >"$1"
	echo "$1"
}

[ -x "$build/heft" ] && [ -x "$build/examples/queue" ] || fail "$build: nothing built here: make"
[ $# -gt 0 ] || set -- "$root"/docs/scenario-*.md "$root/README.md"
for page in "$@"; do
	refresh "$page"
done
