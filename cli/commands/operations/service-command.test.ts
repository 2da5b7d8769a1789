// With programs in place of systemd's and launchd's, which note how they are called.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Layout } from '../../../storage/layout.ts';
import { acquireDataLock } from '../../../storage/processes/data-lock.ts';
import { svc, temporaryFolder } from '../../../testing/command-line.ts';
import { EXIT } from '../../failure.ts';
import { commandIn } from '../../service/unit-files.ts';

const SYSTEMD = `#!/bin/sh
echo "$*" >> "$CALLS"
[ "$2" = show ] && printf 'ActiveState=active\\nSubState=running\\nMainPID=4242\\n'
[ "$2" != restart ] || [ ! -e "$HOME/broken" ] || { echo 'Job for svc-gateway.service failed.' >&2; exit 1; }
exit 0
`;
const LAUNCHD = `#!/bin/sh
echo "$*" >> "$CALLS"
[ "$1" = print ] && printf 'svc-gateway = {\\n\\tstate = running\\n\\tpid = 4242\\n}\\n'
exit 0
`;

function machine(t: TestContext, program: string, script: string) {
  const home = temporaryFolder(t);
  mkdirSync(join(home, 'bin'));
  if (script !== '') writeFileSync(join(home, 'bin', program), script, { mode: 0o755 });
  const calls = join(home, 'calls');
  const env = { HOME: home, PATH: `${join(home, 'bin')}:/nowhere`, CALLS: calls };
  const platform: NodeJS.Platform = program === 'launchctl' ? 'darwin' : 'linux';
  return {
    home,
    called: () => (existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : []),
    svc: (line: string, more = {}) => svc(line.split(' '), { env: { ...env, ...more }, cwd: home, platform }),
  };
}

test('systemd gets a unit of the user, which starts; its removal leaves the data, and says where', async (t) => {
  const { home, called, svc } = machine(t, 'systemctl', SYSTEMD);
  const installed = await svc('service install --port 9000');
  assert.equal(installed.code, EXIT.ok, installed.stderr);
  assert.match(installed.stdout + installed.stderr, /loginctl enable-linger/);
  const unit = join(home, '.config/systemd/user/svc-gateway.service');
  const [node, script = '', ...words] = commandIn(readFileSync(unit, 'utf8'));
  assert.equal(node, process.execPath);
  assert.ok(existsSync(script), script);
  const dataDir = join(home, '.local/share/svc');
  assert.deepEqual(words, ['serve', '--data-dir', dataDir, '--port', '9000']);
  const starts = called().filter((call) => !call.includes('show'));
  assert.deepEqual(starts, [
    '--user daemon-reload',
    '--user enable svc-gateway.service',
    '--user restart svc-gateway.service',
  ]);

  const { code, stdout } = await svc('service status --json');
  assert.equal(code, EXIT.ok);
  assert.deepEqual(JSON.parse(stdout), {
    ...{ installed: true, state: 'active (running)', pid: 4242, url: null },
    ...{ dataDir, file: unit },
  });

  mkdirSync(dataDir, { recursive: true });
  const removed = await svc('service uninstall');
  assert.equal(removed.code, EXIT.ok);
  assert.match(removed.stdout, /data stay in \.local\/share\/svc\. To delete them too: rm -rf \.local\/share\/svc/);
  assert.ok(!existsSync(unit) && existsSync(dataDir));
  assert.ok(called().includes('--user disable --now svc-gateway.service'));
  assert.equal((await svc('service status')).code, EXIT.failed);
  assert.match((await svc('service uninstall')).stdout, /There is no service of yours/);
});

test('launchd gets an agent', async (t) => {
  const { home, called, svc } = machine(t, 'launchctl', LAUNCHD);
  const installed = await svc('service install --json');
  assert.equal(installed.code, EXIT.ok, installed.stdout);
  const file = join(home, 'Library/LaunchAgents/svc-gateway.plist');
  const dataDir = join(home, 'Library/Application Support/svc');
  assert.deepEqual(commandIn(readFileSync(file, 'utf8')).slice(2), ['serve', '--data-dir', dataDir]);
  const domain = `gui/${process.getuid?.()}`;
  assert.ok(called().includes(`bootstrap ${domain} ${file}`), called().join('\n'));
  assert.match((await svc('service status')).stdout, /running \(pid 4242\)/);
  // The single file unpacks itself, so its own path is the one that stays.
  await svc('service install', { SVC_SINGLE_FILE: '/opt/svc' });
  assert.deepEqual(commandIn(readFileSync(file, 'utf8')), ['/opt/svc', 'serve', '--data-dir', dataDir]);
  assert.equal((await svc('service uninstall')).code, EXIT.ok);
  assert.equal(called().at(-1), `bootout ${domain}/svc-gateway`);
  assert.equal(existsSync(file), false);
});

test('without a manager, with another gateway, or when it does not start, it says what to do', async (t) => {
  const without = await machine(t, 'systemctl', '').svc('service install');
  assert.equal(without.code, EXIT.failed);
  assert.match(without.stderr, /No systemd runs for your user here: .*\n {2}Run the gateway in a terminal: svc serve/);

  const busy = machine(t, 'systemctl', SYSTEMD);
  const layout = new Layout(join(busy.home, '.local/share/svc'));
  mkdirSync(layout.runDir, { recursive: true });
  const lock = acquireDataLock(layout.lock);
  t.after(() => lock.release());
  const refused = await busy.svc('service install');
  assert.equal(refused.code, EXIT.failed);
  assert.match(refused.stderr, /already \(pid \d+\), which the service would need\.\n {2}Stop it first/);

  const broken = machine(t, 'systemctl', SYSTEMD);
  writeFileSync(join(broken.home, 'broken'), '');
  const failed = await broken.svc('service install');
  assert.equal(failed.code, EXIT.failed);
  assert.match(failed.stderr, /does not start: Job for .* failed\.\n {2}See why: journalctl --user -u svc-gateway/);
  assert.equal((await svc(['service', 'install'], { platform: 'win32' })).code, EXIT.failed);
  assert.equal((await svc(['service', 'start'])).code, EXIT.usage);
});
