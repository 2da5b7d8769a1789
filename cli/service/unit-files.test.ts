import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'plist';
import { commandIn, launchdPlist, type ServiceSpec, systemdUnit } from './unit-files.ts';

const SPEC: ServiceSpec = {
  command: [process.execPath, '/opt/a b/svc.js', 'serve', '--data-dir', '/home/x/"50%" & <$HOME>\\ü'],
  path: '/home/x/.local/bin:/usr/bin',
  document: '/opt/a b/docs/install.md',
};

test('both files give back the command that they were made of, whatever is in its words', () => {
  assert.deepEqual(commandIn(systemdUnit(SPEC)), SPEC.command);
  assert.deepEqual(commandIn(launchdPlist(SPEC, '/log')), SPEC.command);
  assert.deepEqual(commandIn('[Unit]\n'), []);
});

test('a parser of property lists reads what launchd needs', () => {
  assert.deepEqual(parse(launchdPlist(SPEC, '/home/x/Library/Logs/a&b.log')), {
    Label: 'svc-gateway',
    ProgramArguments: SPEC.command,
    EnvironmentVariables: { PATH: SPEC.path },
    RunAtLoad: true,
    KeepAlive: { SuccessfulExit: false },
    ExitTimeOut: 60,
    // 077: launchd reads it as a decimal number.
    Umask: 0o77,
    SoftResourceLimits: { NumberOfFiles: 65_536 },
    StandardOutPath: '/home/x/Library/Logs/a&b.log',
    StandardErrorPath: '/home/x/Library/Logs/a&b.log',
  });
});

const withoutSystemd = spawnSync('systemd-analyze', ['--version']).error !== undefined && process.env.CI !== 'true';

test('systemd finds no fault in the unit', { skip: withoutSystemd && 'systemd-analyze is not installed' }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-unit-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const unit = join(folder, 'svc-gateway.service');
  writeFileSync(unit, systemdUnit(SPEC));
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--user', unit], {
    encoding: 'utf8',
    env: { ...process.env, XDG_RUNTIME_DIR: folder },
  });
  const faults = stderr.split('\n').filter((line) => line.includes('svc-gateway'));
  assert.deepEqual(faults, [], stderr);
  assert.equal(status, 0, stderr);
});
