#!/bin/sh
# Installs what heft needs from Debian's packages, and only what is missing.
#   setup.sh           build and test needs
#   setup.sh build     what `make` and `make demo` need
#   setup.sh bench     also the peers that `make bench` measures against
#   setup.sh check     installs nothing: names what `make` lacks and how to get it; fails if any
set -eu

build='gcc libc6-dev make meson ninja-build pkg-config libdw-dev libelf-dev libiberty-dev
libzstd-dev libxxhash-dev zlib1g-dev liblzma-dev libmicrohttpd-dev libncurses-dev'
tests='g++ libcmocka-dev libjansson-dev libunwind-dev python3 python3-pytest binutils mandoc bash
perl git sqlite3 jq gdb libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 clang libclang-rt-14-dev
curl libxml2-utils llvm dwz xz-utils libdebuginfod1 zstd tmux bc lsof'
# Other tools, whose files and views the tests compare with heft's. A test without its tool is
# skipped and says so, so none of these has to be there. PROGRAM:PACKAGE: a program that came from
# elsewhere will do (and its package may not go with it).
peers='chromium:chromium node:nodejs npm:npm go:golang-go protoc:protobuf-compiler valgrind:valgrind
heaptrack:heaptrack jeprof:libjemalloc-dev google-pprof:google-perftools :libgoogle-perftools4
:fonts-dejavu-core'
bench='heaptrack valgrind redis-tools'

missing() {
	for package in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -q '^installed$' ||
			printf ' %s' "$package"
	done
}

# Some packages carry a version in their name: another release may not have that one.
available() {
	for package in "$@"; do
		if apt-cache show "$package" >/dev/null 2>&1; then
			printf ' %s' "$package"
		else
			echo "setup: this release has no package $package; going on without it" >&2
		fi
	done
}

# The packages of those peers that are not there.
absent_peers() {
	for peer in $peers; do
		program=${peer%%:*}
		[ -n "$program" ] && command -v "$program" >/dev/null && continue
		missing "${peer#*:}"
	done
}

if ! command -v dpkg-query >/dev/null; then
	[ "${1:-}" = check ] && exit 0
	echo "setup: this is not a Debian system; install by hand:" $build $tests >&2
	exit 1
fi

case "${1:-all}" in
check)
	lacking=$(missing $build)
	[ -z "$lacking" ] && exit 0
	echo "heft: missing packages:$lacking" >&2
	echo "      install them with: make setup   (or: apt-get install$lacking)" >&2
	exit 1 ;;
build) wanted=$build peers= ;;
bench) wanted="$build $tests $bench" ;;
all) wanted="$build $tests" ;;
*)
	echo "usage: setup.sh [build|all|bench|check]" >&2
	exit 2 ;;
esac

lacking=$(missing $wanted)
absent=$(absent_peers)
[ -z "$lacking$absent" ] && exit 0
root=
[ "$(id -u)" -eq 0 ] || root=sudo
if [ -n "$root" ] && ! command -v sudo >/dev/null; then
	[ -z "$lacking" ] && exit 0
	echo "setup: root is needed to install:$lacking" >&2
	exit 1
fi
echo "setup: installing$lacking$absent"
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
lacking=$(available $lacking)
install="$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
[ -z "$lacking" ] || quietly $install $lacking
absent=$(available $absent)
# All at once if that works, else what works.
[ -z "$absent" ] || $install $absent >"$log" 2>&1 </dev/null ||
	for package in $absent; do
		$install "$package" >"$log" 2>&1 </dev/null ||
			echo "setup: cannot install $package; its tests will be skipped" >&2
	done
