#!/bin/sh
# Builds every fuzz target with libFuzzer and runs them one after the other, each for FUZZ_SECONDS (60). It ends
# with the time of the processor that this took, which docs/fuzzing.md adds up. What a target learns stays in
# build-fuzz/corpus, so that the next run goes on from there. The exit status is 1 if a target found something; its
# input is then in build-fuzz/found.
#
#   tools/fuzz.sh [TARGET...]      targets as tests/fuzz/meson.build names them; all without any
#
# docs/fuzzing.md says what the targets are and how long they ran.
set -eu
cd "$(dirname "$0")/.."
build=${FUZZ_BUILD:-build-fuzz}
seconds=${FUZZ_SECONDS:-60}
meson=meson
[ -x /usr/bin/meson ] && meson=/usr/bin/meson

if ! printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n ? 0 : 0; }' |
	clang -x c -fsanitize=fuzzer - -o /dev/null 2>/dev/null; then
	echo "fuzz: clang with libFuzzer is missing (Debian: apt-get install clang libclang-rt-dev)" >&2
	exit 2
fi
[ -f "$build/build.ninja" ] ||
	CC=clang $meson setup "$build" -Dlibfuzzer=true -Dtests=true -Dweb=disabled -Dexamples_rust=disabled \
		-Db_lundef=false -Db_sanitize=address,undefined -Dbuildtype=debugoptimized \
		-Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined' >"$build.log" ||
	{ cat "$build.log"; exit 2; }
ninja -C "$build" fuzz-targets

if [ $# -eq 0 ]; then
	for program in "$build"/tests/fuzz/fuzz_*; do
		[ -f "$program" ] && set -- "$@" "${program##*/fuzz_}"
	done
fi
mkdir -p "$build/found"
failed=
for target in "$@"; do
	case $target in # some share a corpus
	trace_reader) seeds=tests/fuzz/corpus/trace ;;
	recording) seeds=tests/fuzz/corpus/trace ;;
	eh_frame_index) seeds=tests/fuzz/corpus/cfi ;;
	*) seeds=tests/fuzz/corpus/$target ;;
	esac
	mkdir -p "$build/corpus/$target"
	echo "fuzz: $target for $seconds s"
	if ! "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$build/found/$target-" "$build/corpus/$target" "$seeds" \
		>"$build/$target.log" 2>&1; then
		failed="$failed $target"
		grep -E "ERROR|SUMMARY|artifact" "$build/$target.log" || tail -5 "$build/$target.log"
	fi
	grep -E "number_of_executed_units" "$build/$target.log" || true
done
times >"$build/times"
echo "fuzz: time of the processor, user and system: $(tail -n 1 "$build/times")"
[ -z "$failed" ] || { echo "fuzz: found something in:$failed (inputs in $build/found)"; exit 1; }
echo "fuzz: nothing found"
