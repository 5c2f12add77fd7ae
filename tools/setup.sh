#!/bin/sh
# Installs what heft needs from Debian's packages, and only what is missing.
#   setup.sh           build and test needs
#   setup.sh build     what `make` and `make demo` need
#   setup.sh bench     also the peers that `make bench` measures against
#   setup.sh check     installs nothing: names what `make` lacks and how to get it; fails if any
#   setup.sh lacking   installs nothing: one line for each thing that `make test` lacks
#
# Debian 12 and 13 both have every package here under this name. The list has the -dev packages of
# libraries, because libmimalloc2.0, libdebuginfod1t64 and the like have other names in each release.
set -eu

build='gcc libc6-dev make meson ninja-build pkg-config libdw-dev libelf-dev libiberty-dev
libzstd-dev libxxhash-dev zlib1g-dev liblzma-dev libmicrohttpd-dev libgnutls28-dev
libncurses-dev libzydis-dev python3'
tests='g++ libcmocka-dev libjansson-dev libunwind-dev python3-pytest binutils mandoc bash perl git
sqlite3 jq gdb libjemalloc-dev libmimalloc-dev libgoogle-perftools-dev clang libclang-rt-dev curl
libxml2-utils llvm clang-format-19 dwz xz-utils libdebuginfod-dev zstd tmux bc lsof openssl
python3-jsonschema redis-tools strace'
# PROGRAM:PACKAGE: the program may also come from elsewhere (and may then conflict with the package).
# The page needs these; without them everything else works.
page='node:nodejs npm:npm'
# Other tools, whose files and views the tests compare with heft's. `make test` fails without them.
peers='chromium:chromium go:golang-go protoc:protobuf-compiler valgrind:valgrind heaptrack:heaptrack
jeprof:libjemalloc-dev google-pprof:google-perftools dwp:binutils-gold :fonts-dejavu-core musl-gcc:musl-tools'

missing() {
	for package in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -q '^installed$' ||
			printf ' %s' "$package"
	done
}

# Prints the packages of those programs that are missing.
absent() {
	for peer in "$@"; do
		program=${peer%%:*}
		[ -n "$program" ] && command -v "$program" >/dev/null && continue
		missing "${peer#*:}"
	done
}

if [ "${1:-}" = lacking ]; then
	if command -v dpkg-query >/dev/null; then
		for package in $(missing $build $tests) $(absent $page $peers); do
			echo "the Debian package $package is not installed (make setup installs it)"
		done
	else # not Debian: what can be asked for by name
		for peer in g++: clang: python3: gdb: tmux: $page $peers; do
			program=${peer%%:*}
			[ -z "$program" ] || command -v "$program" >/dev/null || echo "$program is not installed"
		done
	fi
	exit 0
fi

if ! command -v dpkg-query >/dev/null; then
	[ "${1:-}" = check ] && exit 0
	echo "setup: this is not a Debian system; install by hand what these packages have:" $build $tests >&2
	exit 1
fi

case "${1:-all}" in
check)
	lacking=$(missing $build)
	[ -z "$lacking" ] && exit 0
	echo "heft: missing packages:$lacking" >&2
	echo "      install them with: make setup   (or: apt-get install$lacking)" >&2
	exit 1 ;;
build) wanted=$build programs=$page ;;
bench) wanted="$build $tests" programs="$page $peers" ;;
all) wanted="$build $tests" programs="$page $peers" ;;
*)
	echo "usage: setup.sh [build|all|bench|check|lacking]" >&2
	exit 2 ;;
esac

lacking=$(missing $wanted)
soft=$(absent $programs)
[ -z "$lacking$soft" ] && exit 0
root=
[ "$(id -u)" -eq 0 ] || root=sudo
if [ -n "$root" ] && ! command -v sudo >/dev/null; then
	echo "setup: root (or sudo) is needed to install:$lacking$soft" >&2
	[ -z "$lacking" ] && exit 0
	exit 1
fi
echo "setup: installing$lacking$soft"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
	"$@" >"$log" 2>&1 </dev/null || {
		cat "$log" >&2
		echo "setup: failed: $*" >&2
		exit 1
	}
}
quietly $root apt-get update -qq
install="$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
[ -z "$lacking" ] || quietly $install $lacking
# Installs all at once if that works, else one by one what works.
[ -z "$soft" ] || $install $soft >"$log" 2>&1 </dev/null ||
	for package in $soft; do
		$install "$package" >"$log" 2>&1 </dev/null ||
			echo "setup: cannot install $package: $(grep '^E:' "$log" | head -n 1)" >&2
	done
