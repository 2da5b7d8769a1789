#!/usr/bin/env bash
# Tries deploy/svc.service and deploy/svc.socket under a systemd of their own: a Debian made by debootstrap, booted by
# systemd-nspawn with this clone installed in it as docs/operations.md says. Needs root, debootstrap, systemd-container, and
# a built clone. `run.sh [folder]` keeps the Debian in the folder for the next time.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-$(mktemp -d /tmp/svc-systemd-XXXXXX)}
base=$folder/base
root=$folder/root
mkdir -p "$folder"
[ -e "$base/sbin/init" ] || debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$base" >&2
rm -rf "$root"
cp -a "$base" "$root"

# What `npm install -g` makes of the packed clone, without asking a registry.
installed=$root/usr/local/lib/node_modules/svc-gateway
mkdir -p "$installed/node_modules"
cp -a package.json bin dist templates deploy docs schemas "$installed/"
npm ls --omit=dev --all --parseable 2>/dev/null | sed -n "s#^$PWD/\(node_modules/.*\)#\1#p" | while read -r package; do
  mkdir -p "$installed/$(dirname "$package")"
  cp -a "$package" "$installed/$(dirname "$package")/"
done
cp "$(node -p process.execPath)" "$root/usr/local/bin/node"
ln -s ../lib/node_modules/svc-gateway/bin/svc.js "$root/usr/local/bin/svc"

install -m 755 scripts/systemd/inside.sh "$root/trial.sh"
cat >"$root/etc/systemd/system/trial.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/bash /trial.sh
ExecStopPost=/bin/systemctl poweroff --no-block
TimeoutStartSec=9min
StandardOutput=file:/trial.log
StandardError=file:/trial.log
UNIT
ln -s ../trial.service "$root/etc/systemd/system/multi-user.target.wants/trial.service"
timeout 590 systemd-nspawn --quiet --directory="$root" --machine="svc-trial-$$" --register=no --keep-unit --private-network \
  /sbin/init >"$folder/boot.log" 2>&1 || true
cat "$root/trial.log"
[ "$(tail -n 1 "$root/trial.log")" = 'All of it works.' ]
