#!/bin/sh
# Proves the two commands on a bare system: makes a minimal Debian 12 in a scratch folder, puts a
# clone of this tree into it, and runs `make run` and `make test` there, from nothing.
#
#     scripts/check-debootstrap.sh [--keep] [--only setup|run|test] [FOLDER]
#
# Needs root and debootstrap. Packages come from where this machine's apt gets them: its sources,
# keys, proxies and certificates are copied in, as are pip's settings.
set -eu

keep= only= folder=
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=1 ;;
    --only) only=$2; shift ;;
    -*) sed -n '2,8p' "$0"; exit 2 ;;
    *) folder=$1 ;;
    esac
    shift
done
tree=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" -eq 0 ] || { echo "debootstrap and chroot need root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "missing: apt-get install debootstrap" >&2; exit 2; }
[ -n "$folder" ] || folder=$(mktemp -d)
mkdir -p "$folder"
root=$folder/root

unmount() {
    for where in proc sys dev; do
        ! mountpoint -q "$root/$where" || umount -R -l "$root/$where"
    done
}
finish() {
    status=$?
    unmount
    # Nothing is removed while something of this machine may still be mounted below.
    if [ -z "$keep" ] && ! grep -q " $root/" /proc/mounts; then
        rm -rf --one-file-system "$folder"
    fi
    exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

# The first archive that this machine's apt uses for the release.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    grep -v security | head -n 1)
[ -n "$mirror" ] || { echo "apt knows no archive here; run apt-get update first" >&2; exit 2; }

step() { echo "== $*"; }
copy() { # a file or folder of this machine, to the same place inside
    [ -e "$1" ] || return 0
    mkdir -p "$root$(dirname "$1")"
    rm -rf --one-file-system "$root$1"
    cp -rL "$1" "$root$(dirname "$1")/"
}

if ! [ -x "$root/bin/sh" ] || ! [ -e "$folder/.done" ]; then
    step "a minimal system"
    proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
    [ -z "$proxy" ] || export http_proxy="$proxy"
    certificates=$(apt-config dump --format '%v' Acquire::https::CAInfo)
    debootstrap --variant=minbase ${certificates:+--ca-certificate="$certificates"} bookworm \
        "$root" "$mirror"
    touch "$folder/.done"
fi

step "this machine's apt and pip settings"
rm -f "$root/etc/apt/sources.list"
for part in sources.list sources.list.d trusted.gpg trusted.gpg.d keyrings preferences.d auth.conf.d; do
    copy "/etc/apt/$part"
done
copy /usr/share/keyrings
mkdir -p "$root/etc/apt/apt.conf.d"
apt-config dump | grep -E '^Acquire::(http|https|Retries|Check)' > "$root/etc/apt/apt.conf.d/99host" || true
for part in /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates \
    /etc/pip.conf /etc/resolv.conf /etc/hosts; do
    copy "$part"
done
! [ -f "$HOME/.config/pip/pip.conf" ] || cp "$HOME/.config/pip/pip.conf" "$root/etc/pip.conf"
! [ -f "$HOME/.pip/pip.conf" ] || cp "$HOME/.pip/pip.conf" "$root/etc/pip.conf"
for where in proc sys dev; do
    mountpoint -q "$root/$where" && continue
    mount --rbind "/$where" "$root/$where"
    mount --make-rslave "$root/$where" # what is unmounted here stays mounted outside
done

inside() {
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LC_ALL=C.UTF-8 \
        $(env | grep -E '^(PIP_|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|SSL_CERT_FILE)' |
            grep -v ' ') \
        chroot "$root" sh -ec "$1"
}

step "git, make and a clone"
inside "export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -y -q --no-install-recommends git make ca-certificates"
rm -rf "$root/relay"
git clone -q --no-hardlinks "$tree" "$root/relay"

case $only in
setup)
    step "setup"
    inside "cd /relay && sh scripts/setup.sh run test && cmake --preset release"
    ;;
*)
    if [ "$only" != test ]; then
        step "make run"
        inside "cd /relay && make run </dev/null"
        step "make run, again"
        inside "cd /relay && bash -c 'time make run </dev/null'" 2>&1 | tail -n 4
    fi
    if [ "$only" != run ]; then
        step "make test"
        inside "cd /relay && make test"
    fi
    ;;
esac
step "done"
