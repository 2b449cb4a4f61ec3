#!/bin/sh
# Installs what is missing of the packages in packages.txt:  setup.sh [GROUP...], by default `run`.
# Does nothing, quickly, when everything is there.
set -eu
list=$(dirname "$0")/packages.txt
[ $# -gt 0 ] || set -- run

packages=$(for group; do awk -v g="$group" '$1 == g { print $2 }' "$list"; done)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    # Not Debian: the build says by itself what it does not find.
    command -v cmake >/dev/null && command -v ninja >/dev/null && exit 0
    echo "This system has no apt-get. Needed are, by their names in Debian:" >&2
    echo "$packages" | tr '\n' ' ' >&2
    echo >&2
    exit 1
fi

# shellcheck disable=SC2086
missing=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null |
    awk -v all="$packages" '
        $1 == "installed" { have[$2] = 1 }
        END { n = split(all, p, "\n"); for (i = 1; i <= n; i++) if (!have[p[i]]) print p[i] }')
[ -n "$missing" ] || exit 0
missing=$(echo "$missing" | sort -u | tr '\n' ' ')

install="apt-get install -y --no-install-recommends $missing"
if [ "$(id -u)" -eq 0 ]; then
    sudo=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo=sudo
else
    echo "Packages are missing, and installing them needs root. Run:" >&2
    echo "    sudo apt-get update && sudo $install" >&2
    exit 1
fi
echo "Installing: $missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q
# shellcheck disable=SC2086
$sudo $install
