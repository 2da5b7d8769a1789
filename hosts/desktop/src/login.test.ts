import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { autostartFile, setStartAtLogin, startsAtLogin } from './login.ts';

test('on Linux a file of the desktop starts it at login, hidden', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'svc-login-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const loginItem = { get: () => assert.fail(), set: () => assert.fail() };
  const shell = { platform: 'linux' as const, env: { HOME: home }, program: '/opt/svc/svc-desktop', loginItem };
  assert.equal(startsAtLogin(shell), false);
  setStartAtLogin(shell, true);
  assert.equal(startsAtLogin(shell), true);
  const text = readFileSync(join(home, '.config/autostart/svc-desktop.desktop'), 'utf8');
  assert.match(text, /^\[Desktop Entry\]\nType=Application\n/);
  assert.match(text, /^Exec="\/opt\/svc\/svc-desktop" --hidden$/m);
  setStartAtLogin(shell, false);
  setStartAtLogin(shell, false);
  assert.equal(startsAtLogin(shell), false);
});

test('the path of the program is quoted', () => {
  assert.match(autostartFile('/a b/50%/$x"'), /^Exec="\/a b\/50%%\/\\\\\$x\\\\""/m);
});

test('elsewhere the system has a setting', () => {
  let isOpen = false;
  const loginItem = { get: () => isOpen, set: (open: boolean) => (isOpen = open) };
  const shell = { platform: 'darwin' as const, env: {}, program: '', loginItem };
  setStartAtLogin(shell, true);
  assert.equal(startsAtLogin(shell), true);
});
