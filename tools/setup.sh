#!/bin/sh
# Installs what heft needs from Debian's packages, and only what is missing.
#   setup.sh           build and test needs
#   setup.sh build     what `make` and `make demo` need
#   setup.sh bench     also the peers that `make bench` measures against
#   setup.sh check     installs nothing: names what `make` lacks and how to get it; fails if any
set -eu

build='gcc libc6-dev make meson ninja-build pkg-config libdw-dev libelf-dev libiberty-dev
libzstd-dev libxxhash-dev zlib1g-dev'
tests='g++ libcmocka-dev libjansson-dev libunwind-dev python3 python3-pytest binutils mandoc bash
perl git sqlite3 jq gdb libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 clang libclang-rt-14-dev
libxml2-utils chromium fonts-dejavu-core nodejs npm'
bench='heaptrack valgrind'

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
build) wanted=$build ;;
bench) wanted="$build $tests $bench" ;;
all) wanted="$build $tests" ;;
*)
	echo "usage: setup.sh [build|all|bench|check]" >&2
	exit 2 ;;
esac

lacking=$(missing $wanted)
[ -z "$lacking" ] && exit 0
root=
[ "$(id -u)" -eq 0 ] || root=sudo
if [ -n "$root" ] && ! command -v sudo >/dev/null; then
	echo "setup: root is needed to install:$lacking" >&2
	exit 1
fi
echo "setup: installing$lacking"
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
[ -z "$lacking" ] && exit 0
quietly $root env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -qq --no-install-recommends $lacking
