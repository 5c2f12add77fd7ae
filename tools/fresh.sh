#!/bin/bash
# Tries heft on machines that have nothing: `make demo`, the page and the tests, on bare Debian 12
# and 13 (debootstrap, minbase), with the tools that each release itself has.
#   fresh.sh                      Debian 12 as root in its home (mode 0700), Debian 13 as an ordinary
#                                 user with sudo; demo, then the smoke set of every test stage
#   fresh.sh --all                each release as both; as root demo before all tests, as the user after
#   fresh.sh RELEASE:USER:ORDER:SET ...   only these: bookworm|trixie : root|user : demo-test|test-demo : smoke|all
#
# Needs root. A try runs in mount, process and IPC namespaces of its own: its mounts and leftover
# processes end with it, also after Ctrl-C or kill -9. HEFT_FRESH_CACHE (default ~/.cache/heft-fresh)
# keeps the bare systems and the packages that apt fetched, so that a second try downloads little. It
# also keeps the logs. The tree is a clone of HEAD: the script does not try uncommitted changes.
#
# The mirror is HEFT_FRESH_MIRROR, or the first Debian one of this machine's own apt sources. The try
# gets apt's proxy, npm's settings and the certificates of this machine unchanged.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
cache=${HEFT_FRESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/heft-fresh}
began=$SECONDS

fail() {
	echo "fresh: $*" >&2
	exit 1
}

# ---- inside the namespaces: fresh.sh --inside ROOT COMMAND..., never called by hand

# Makes the few files of /dev that programs expect; a system's real devices stay outside.
mount_system() {
	local root=$1 device
	mount --make-rprivate / &&
		mount --bind "$root" "$root" &&
		mount -t proc proc "$root/proc" &&
		mount --rbind /sys "$root/sys" &&
		mount -t tmpfs -o mode=755 tmpfs "$root/dev" || return 1
	for device in null zero full random urandom tty; do
		touch "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device" || return 1
	done
	mkdir "$root/dev/pts" "$root/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts" &&
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" &&
		mount --bind "$cache/packages" "$root/var/cache/apt/archives" || return 1
	ln -s pts/ptmx "$root/dev/ptmx"
	ln -s /proc/self/fd "$root/dev/fd"
	ln -s /proc/self/fd/0 "$root/dev/stdin"
	ln -s /proc/self/fd/1 "$root/dev/stdout"
	ln -s /proc/self/fd/2 "$root/dev/stderr"
}

if [ "${1:-}" = --inside ]; then
	root=$2
	shift 2
	mount_system "$root" || fail "cannot mount what $root needs"
	exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LANG=C.UTF-8 TERM="${TERM:-dumb}" "$@"
fi

# apart COMMAND...: runs it in namespaces of its own. It is a job, so that Ctrl-C reaches this script
# only, which then kills it: unshare takes every process and every mount inside with it.
set -m
running=
apart() {
	HEFT_FRESH_CACHE=$cache unshare --mount --pid --ipc --fork --kill-child -- "$@" </dev/null 3>&- &
	running=$!
	wait $running
	local status=$?
	running=
	return $status
}

# inside ROOT COMMAND...: runs the command there.
inside() {
	apart "$0" --inside "$@"
}

interrupted() {
	[ -z "$running" ] || kill -KILL $running 2>/dev/null
	[ -z "${unfinished:-}" ] || rm -rf --one-file-system "$unfinished"
	fail interrupted 2>&3
}
exec 3>&2 # what runs when the trap comes may have its output elsewhere
trap interrupted INT TERM HUP

# ---- the bare systems

mirror_of_this_machine() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -n 's/^deb \(\[[^]]*\] \)\?\(https\?:[^ ]*\/debian\)\/\? .*/\2/p'
	sed -n 's/^URIs: *\(https\?:[^ ]*\/debian\)\/\? *$/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null
}

# bare RELEASE: makes it once; the folder gets its name when it is whole.
bare() {
	local release=$1 new=$cache/$1.new log=$cache/logs/debootstrap-$1.txt
	[ -d "$cache/$release" ] && return
	say "$release: debootstrap"
	rm -rf --one-file-system "$new"
	unfinished=$new
	apart debootstrap --variant=minbase --cache-dir="$cache/packages" "$release" "$new" "$mirror" \
		>"$log" 2>&1 || {
		tail -n 5 "$log" >&2
		fail "$release cannot be downloaded from $mirror (the log is $log;" \
			"HEFT_FRESH_MIRROR=ADDRESS names another mirror)"
	}
	# Nothing here has to survive a power cut; the packages are kept for the next try.
	echo force-unsafe-io >"$new/etc/dpkg/dpkg.cfg.d/fresh"
	echo 'Acquire::Retries "3";' >"$new/etc/apt/apt.conf.d/99fresh"
	find "$new/dev" -mindepth 1 -delete
	mv "$new" "$cache/$release"
	unfinished=
}

# Copies what this machine needs to reach its registries, and nothing else.
hand_on() {
	local root=$1 home=$2 name
	apt-config dump 2>/dev/null | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until)' \
		>"$root/etc/apt/apt.conf.d/98host"
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	[ ! -f "$HOME/.npmrc" ] || grep -E 'registry|proxy|^//|strict-ssl' "$HOME/.npmrc" >"$root$home/.npmrc"
	handed=()
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY npm_config_registry; do
		[ -z "${!name:-}" ] || handed+=("$name=${!name}")
	done
	if [ -f "${NODE_EXTRA_CA_CERTS:-}" ]; then
		cp "$NODE_EXTRA_CA_CERTS" "$root/etc/fresh-certificates.crt"
		handed+=(NODE_EXTRA_CA_CERTS=/etc/fresh-certificates.crt)
	fi
}

# ---- a try

say() {
	printf '[%5d s] %s\n' $((SECONDS - began)) "$*"
}

# step NAME WHAT COMMAND: runs it in the clone, as the user; shows its last line, and more if it fails.
step() {
	local what=$2 command=$3 log=$cache/logs/$try-$1.txt
	say "$try: $what"
	if inside "$root" "${as[@]}" sh -c "cd '$home/heft' && $command" >"$log" 2>&1; then
		printf '          %s\n' "$(tail -n 1 "$log")"
		return
	fi
	sed -n '/^failed:$/,$p' "$log" | grep . || tail -n 30 "$log"
	failures+=("$try: $what (the log is $log, the system $root)")
	return 1
}

try_one() {
	local release user order set
	IFS=: read -r release user order set <<<"$1"
	try=$release-$user-$order-$set
	root=$cache/try-$try
	rm -rf --one-file-system "$root"
	unfinished=$root
	cp -a --reflink=auto "$cache/$release" "$root" || fail "no room for $root"
	home=/root
	[ "$user" = root ] || home=/home/user
	mkdir -p "$root$home"
	echo "deb $mirror $release main" >"$root/etc/apt/sources.list"
	hand_on "$root" "$home"
	# make and git bring the tree to a machine; root needs no sudo, a user does.
	inside "$root" sh -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends make git $([ "$user" = root ] || echo sudo)" \
		>"$cache/logs/$try-apt.txt" 2>&1 || {
		grep '^[EW]:' "$cache/logs/$try-apt.txt" >&2
		fail "$release: apt cannot install from $mirror (the log is $cache/logs/$try-apt.txt)"
	}
	git -c advice.detachedHead=false clone -q "$cache/tree.bundle" "$root$home/heft" || fail "cannot clone $source"
	as=(env HOME=$home "${handed[@]}")
	if [ "$user" = root ]; then
		chmod 700 "$root/root"
	else
		inside "$root" sh -c "useradd --shell /bin/bash user && chown -R user: /home/user &&
			echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user" || fail "cannot make a user"
		as=(setpriv --reuid=user --regid=user --init-groups env USER=user HOME=$home "${handed[@]}")
	fi
	local failed_before=${#failures[@]}
	if [ "$order" = demo-test ]; then
		try_demo
		try_tests "$set"
	else
		try_tests "$set"
		try_demo
	fi
	[ ${#failures[@]} -gt $failed_before ] || rm -rf --one-file-system "$root"
	unfinished=
}

try_demo() {
	step demo 'make demo' 'make demo' &&
		step page 'the page of the demo' 'build/heft export -f html -o build/demo/page.html \
			build/demo/csv_rows.heft && ! grep -q "built without its page" build/demo/page.html &&
			ls -s build/demo/page.html'
}

try_tests() {
	if [ "$1" = all ]; then
		step test 'make test' 'make test'
	else
		step test 'make test SMOKE=1' 'make test SMOKE=1'
	fi
}

# This is one function, so bash reads it whole: someone may change the script while it runs.
main() {
	[ "$(id -u)" -eq 0 ] || fail "this needs root: it makes systems to chroot into, and mounts"
	for tool in debootstrap unshare chroot git; do
		command -v $tool >/dev/null || fail "no $tool here (on Debian: apt-get install debootstrap util-linux git)"
	done
	mirror=${HEFT_FRESH_MIRROR:-$(mirror_of_this_machine | head -n 1)}
	[ -n "$mirror" ] || fail "this machine's apt names no Debian mirror: set HEFT_FRESH_MIRROR=ADDRESS"
	mkdir -p "$cache/logs" "$cache/packages/partial" || fail "cannot write to $cache"
	case "${1:-}" in
	'') tries=(bookworm:root:demo-test:smoke trixie:user:demo-test:smoke) ;;
	--all)
		tries=(bookworm:root:demo-test:all trixie:root:demo-test:all
			bookworm:user:test-demo:all trixie:user:test-demo:all) ;;
	*) tries=("$@") ;;
	esac
	for one in "${tries[@]}"; do
		[[ $one =~ ^(bookworm|trixie):(root|user):(demo-test|test-demo):(smoke|all)$ ]] || fail "what is $one?"
	done
	[ -z "$(git -c safe.directory='*' -C "$source" status --porcelain)" ] || say "what is not committed is not tried"
	# A bundle, since git does not let root clone what belongs to another user.
	git -c safe.directory='*' -C "$source" bundle create -q "$cache/tree.bundle" HEAD ||
		fail "$source is not a git repository"
	failures=()
	for one in "${tries[@]}"; do
		bare "${one%%:*}"
		try_one "$one"
	done
	if [ ${#failures[@]} -gt 0 ]; then
		echo "failed:"
		printf '  %s\n' "${failures[@]}"
		exit 1
	fi
	say "all of it works: ${tries[*]}"
	echo "CPU time (user, system) of this script and of what it ran:"
	times
}
main "$@"
exit
