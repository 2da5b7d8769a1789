#!/bin/bash
# What run.sh runs as root inside its Debian: the gateway as a service, from its installation to its end.
set -euo pipefail
cd /
step() { echo "$(date +%T) $*"; }
fail() {
  echo "FAILED: $*"
  systemctl status svc svc.socket --no-pager --lines=20 || true
  exit 1
}
property() { systemctl show svc --property="$1" --value; }
expect() { [ "$2" = "$3" ] || fail "$1 is $2, not $3"; }
health() { node -e 'fetch("http://127.0.0.1:8787/svc/_health").then(({ status }) => console.log(status), () => console.log("none"))'; }
svc_user() { setpriv --reuid=svc --regid=svc --clear-groups env HOME=/tmp "$@" --data-dir /var/lib/svc; }
# Restarted so many times, and ready.
restarted() {
  for _ in $(seq 300); do
    [ "$(property NRestarts)" = "$1" ] && [ "$(property ActiveState)" = active ] && return
    sleep 0.2
  done
  fail "it is not restarted: $(property NRestarts) times, $(property ActiveState)"
}
# Asks without pause for so many seconds; prints how many requests got which answer.
ask_for() {
  node --input-type=module - "$1" <<'JS'
import { get } from 'node:http';
const counts = {};
const until = Date.now() + process.argv[2] * 1000;
const ask = () =>
  new Promise((resolve) =>
    get({ port: 8787, host: '127.0.0.1', path: '/svc/_health', agent: false }, (answer) =>
      answer.resume().on('close', () => resolve(answer.statusCode)),
    ).on('error', ({ code }) => resolve(code)),
  );
const client = async () => {
  while (Date.now() < until) {
    const result = await ask();
    counts[result] = (counts[result] ?? 0) + 1;
  }
};
await Promise.all([client(), client(), client(), client()]);
console.log(JSON.stringify(counts));
JS
}

step 'It is installed as the document says'
useradd --system --home-dir /var/lib/svc svc
install -d /etc/svc
echo '{ "dataDir": "/var/lib/svc" }' >/tmp/config.json
install -m 640 --group=svc /tmp/config.json /etc/svc/config.json
install -m 644 /usr/local/lib/node_modules/svc-gateway/deploy/svc.{service,socket} /etc/systemd/system/
systemctl daemon-reload

step 'It starts, and says so'
systemctl enable --quiet --now svc
expect 'the state' "$(property ActiveState)" active
expect 'the status text' "$(property StatusText)" 'Ready on http://127.0.0.1:8787'
expect 'the answer' "$(health)" 200
expect 'the owner of the data' "$(stat -c '%U %a' /var/lib/svc)" 'svc 700'

step 'An app works: its files, handlers, jobs and database, with all that the unit forbids'
(cd /tmp && setpriv --reuid=svc --regid=svc --clear-groups env HOME=/tmp svc new mine --clone todos >/dev/null)
(cd /tmp && svc_user svc push mine >/dev/null)
svc_user svc write mine add '{"title":"Milk"}' >/dev/null
svc_user svc read mine list | grep -q Milk || fail 'what was written is not there'

step 'A gateway that stands still is ended by the watchdog and started again'
kill -STOP "$(property MainPID)"
restarted 1
journalctl --unit=svc | grep -q 'Watchdog timeout' || fail 'it was not the watchdog'
svc_user svc read mine list | grep -q Milk || fail 'what was written is lost'

step 'A gateway that is killed is started again'
kill -KILL "$(property MainPID)"
restarted 2
expect 'the answer' "$(health)" 200

step 'It stops cleanly, and leaves no process'
systemctl stop svc
expect 'the result' "$(property Result) $(property ExecMainStatus)" 'success 0'
for process in /proc/[0-9]*; do
  [ "$(stat -c %U "$process" 2>/dev/null)" != svc ] || fail "a process is left: $(tr '\0' ' ' <"$process/cmdline")"
done

step 'With the socket, the first connection starts it'
systemctl enable --quiet --now svc.socket
expect 'the state' "$(property ActiveState)" inactive
expect 'the answer' "$(health)" 200
expect 'the state' "$(property ActiveState)" active

step 'Two restarts under load refuse and lose no connection'
ask_for 20 >/tmp/asked &
sleep 3
systemctl restart svc
sleep 2
systemctl restart svc
wait $!
cat /tmp/asked
grep -q '"200":' /tmp/asked || fail 'nothing was answered'
! grep -q 'ECONN' /tmp/asked || fail 'connections were lost'

step 'How far it is confined'
systemd-analyze security svc --no-pager | tail -n 1
systemctl stop svc.socket svc
! journalctl --unit=svc | grep 'systemd cannot be told' || fail 'systemd was not told'
echo 'All of it works.'
