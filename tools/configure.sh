#!/bin/sh
# Sets up the build directory, updates it when tools were installed or removed since, and says when
# heft is built without its page.
#   configure.sh BUILD [OPTION...]   options for meson; they count only when BUILD is set up anew
#   configure.sh BUILD again         also tries once more to get the page, if there is none
#   configure.sh BUILD say           after building: prints why there is no page and what to do, if so
#
# Meson looks for optional tools only while it sets up: without this script, a node, a g++ or a cmocka
# that is installed later would change nothing. BUILD/found-tools.txt lists the tools of the last time.
set -eu
build=$1
shift
meson=${MESON:-/usr/bin/meson}
[ -x "$meson" ] || meson=meson

found_tools() {
	for tool in node npm g++ rustc; do
		echo "$tool $(command -v $tool || echo -)"
	done
	for library in cmocka liblzma ncursesw; do
		echo "$library $(pkg-config --modversion $library 2>/dev/null || echo -)"
	done
}

has_page() {
	grep -q 'web/heft\.html' "$build/build.ninja"
}

say_why() {
	if has_page; then
		return
	fi
	for tool in node npm; do
		command -v $tool >/dev/null || lacking="${lacking:-}${lacking:+ and }$tool"
	done
	echo
	if tr '{' '\n' <"$build/meson-info/intro-buildoptions.json" |
		grep '"name": "web"' | grep -q '"value": "disabled"'; then
		echo "heft is built WITHOUT ITS PAGE, because the build is set up with -Dweb=disabled."
		echo "To get it: meson configure $build -Dweb=auto && make page"
	elif [ -n "${lacking:-}" ]; then
		echo "heft is built WITHOUT ITS PAGE: no $lacking here."
		echo "To get it: make setup (or on Debian: apt-get install nodejs npm), then make."
	else
		echo "heft is built WITHOUT ITS PAGE: $(cat "$build/web/why_no_page.txt" 2>/dev/null ||
			echo "see $build/meson-logs/meson-log.txt")"
		echo "To get it: mend that (npm must reach its registry, node must be 18 or later), then make page."
	fi
	echo "heft view and heft export -f html show words instead of it; all else works."
}

if [ "${1:-}" = say ]; then
	say_why
	exit 0
fi
now=$(found_tools)
if [ ! -f "$build/build.ninja" ]; then
	"$(dirname "$0")/setup.sh" check
	[ "${1:-}" = again ] && shift
	tests=true
	pkg-config --exists cmocka || {
		tests=false
		echo "make: no cmocka, so no unit tests (make setup installs it)"
	}
	$meson setup "$build" "$@" -Dtests=$tests
else
	old=$(cat "$build/found-tools.txt" 2>/dev/null || true)
	if [ "$old" = "$now" ] && { [ "${1:-}" != again ] || has_page; }; then
		exit 0
	fi
	# The unit tests were left out only because cmocka was missing, unless the user said so.
	tests=
	case "$old" in *'cmocka -'*) pkg-config --exists cmocka && tests=-Dtests=true ;; esac
	echo "make: setting up $build again, with the tools that are here now"
	$meson setup --reconfigure "$build" $tests
fi
echo "$now" >"$build/found-tools.txt"
