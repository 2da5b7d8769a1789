/** The desktop program with its real gateway in the background, and the test in the place of Electron. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { lastStarted, stopAndWait } from '../../../cli/gateway/background.ts';
import packageJson from '../../../package.json' with { type: 'json' };
import { Layout } from '../../../storage/layout.ts';
import { isRunning } from '../../../storage/processes/process-identity.ts';
import { appOf } from '../../../testing/apps.ts';
import { gatewayOfSuite } from '../../../testing/edges.ts';
import { TestGateway } from '../../../testing/gateway.ts';
import { eventually, LONG_MS } from '../../../testing/waiting.ts';
import { type Store, safeStorageOf, TestShell } from '../testing/shell.ts';
import { CrashLog } from './crash-log.ts';
import { Desktop } from './desktop.ts';

const LOOK_MS = 20;

describe('the desktop program', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-desktop-host-'));
  const office = gatewayOfSuite({ apps: { notes: appOf('notes') } });
  let shell: TestShell;
  let desktop: Desktop;
  const dataDir = join(folder, 'user/gateways/local');
  const layout = new Layout(dataDir);
  const daemon = () =>
    JSON.parse(readFileSync(join(dataDir, 'run/daemon.json'), 'utf8')) as { pid: number; url: string };
  const crashes = () => readFileSync(join(folder, 'user/crashes.log'), 'utf8');

  /** The program as another start of it would be. */
  function again({ store = 'present', version = packageJson.version }: { store?: Store; version?: string } = {}): void {
    desktop?.quit();
    shell = new TestShell(folder, store);
    shell.version = version;
    desktop = new Desktop(shell, new CrashLog(shell.userData, version), LOOK_MS);
  }

  before(async () => {
    // The first port, which another gateway of this machine may have.
    again();
    shell.presses = ['Use another port'];
  });
  beforeEach(() => {
    shell.asked.length = 0;
  });
  after(async () => {
    await desktop.stopAndQuit();
    // One that a test which failed has left behind.
    const left = lastStarted(dataDir);
    if (left !== null) await stopAndWait(left);
    rmSync(folder, { recursive: true, force: true });
  });

  test('starts its gateway, lays out its folder, and shows the console by a link that signs in', async () => {
    await desktop.gateways.noteAddress(`http://127.0.0.1:${await takenPort()}`);
    await desktop.start([]);
    assert.match(shell.asked[0]?.message ?? '', /is listening on port \d+\.$/);
    for (const path of [layout.runtimeDb, layout.format, join(dataDir, 'code-store/apps.git'), layout.lock])
      assert.ok(existsSync(path), path);
    const { kind, id, url } = JSON.parse(readFileSync(layout.profile, 'utf8'));
    assert.deepEqual([id, kind, url], ['local', 'desktop', daemon().url]);
    assert.match(readFileSync(layout.token, 'utf8'), /^safeStorage:/);
    const [window] = shell.windows;
    assert.equal(window?.options.partition, 'persist:local');
    assert.equal(window?.options.note, '');
    const { hash, host } = new URL(window?.url() ?? '');
    assert.equal(await signsIn(new URLSearchParams(hash.slice(1)).get('link') ?? '', host), 200);
    assert.ok(shell.labels().includes('Console') && !shell.labels().includes('It does not answer'));
    assert.equal((await system()).edge, 'node');
  });

  test('another start shows the same window, by a link the app of it', async () => {
    await (await ours()).install('todos', appOf('todos'));
    await desktop.startedAgain(['/opt/svc/svc-desktop']);
    assert.deepEqual([shell.windows.length, shell.windows[0]?.focused, shell.windows[0]?.loaded.length], [1, 1, 1]);
    await desktop.startedAgain(['svc://open/todos']);
    assert.equal(shell.windows.length, 2);
    assert.match(shell.windows[1]?.url() ?? '', /#link=[0-9a-f]+&open=todos$/);
    await desktop.refreshMenu();
    assert.ok(shell.labels().includes('todos'));
    shell.windows[1]?.close();
    shell.press('todos');
    assert.ok(await eventually(LONG_MS, () => shell.windows.length === 3));
  });

  test('links that are not ours open nothing', async () => {
    const { length } = shell.windows;
    for (const link of ['svc://open/todos?gateway=unknown', 'svc://add?url=http://evil.example', 'svc://open/_apps'])
      assert.equal(await desktop.follow(link), false);
    assert.equal(shell.windows.length, length);
    assert.match(crashes(), /A link was refused/);
    await desktop.follow('svc://open/nothing');
    assert.match(shell.asked[0]?.detail ?? '', /"nothing"/);
    assert.equal(shell.windows.length, length);
  });

  test('the next start adopts the gateway that runs', async () => {
    const { pid } = daemon();
    again();
    await Promise.all([desktop.start([]), desktop.startedAgain([])]);
    assert.deepEqual([daemon().pid, shell.asked], [pid, []]);
    assert.equal(shell.windows.length, 1);
    await desktop.copyToken();
    assert.match(shell.copied, new RegExp(`^export SVC_URL=${daemon().url} SVC_TOKEN=[0-9a-f]{64}\n$`));
  });

  test('a gateway that crashes while a window is open runs again at the same address', async () => {
    const { pid, url } = daemon();
    process.kill(pid, 'SIGKILL');
    const isBack = async () => existsSync(join(dataDir, 'run/daemon.json')) && daemon().pid !== pid;
    assert.ok(await eventually(LONG_MS, isBack));
    assert.equal(daemon().url, url);
    assert.ok(await eventually(LONG_MS, async () => (await get('/svc/_health')) === 200));
    assert.match(crashes(), new RegExp(`"The gateway ended by itself, and is started again\\.","pid":${pid}`));
    // The session of the window goes on: the token is the same.
    await desktop.open({ gateway: 'local', app: null });
    assert.equal(shell.windows.length, 1);
  });

  test('after an update of the package the gateway that runs is replaced', async () => {
    const { pid, url } = daemon();
    again({ version: `${packageJson.version}-next` });
    await desktop.start(['--hidden']);
    assert.notEqual(daemon().pid, pid);
    assert.equal(daemon().url, url);
    assert.equal(isRunning(pid), false);
    assert.deepEqual([shell.windows, shell.asked], [[], []]);
    // The package of the tests is that of the first version.
    again();
    await desktop.start(['--hidden']);
  });

  test('without a key store the token is a private file, and the window and the menu say so', async () => {
    await desktop.stopAndQuit();
    rmSync(layout.token);
    again({ store: 'basic_text' });
    await desktop.start([]);
    const token = readFileSync(layout.token, 'utf8').trim();
    assert.match(token, /^[0-9a-f]{64}$/);
    assert.equal(statSync(layout.token).mode & 0o777, 0o600);
    assert.equal(shell.windows[0]?.options.note, ' – the token is not protected');
    shell.press('The tokens are not protected here…');
    assert.match(shell.asked[0]?.detail ?? '', /GNOME Keyring or KWallet/);

    const { pid } = daemon();
    again();
    await desktop.start([]);
    assert.match(readFileSync(layout.token, 'utf8'), /^safeStorage:/);
    assert.deepEqual([daemon().pid, shell.windows[0]?.options.note], [pid, '']);
    await desktop.copyToken();
    assert.ok(shell.copied.includes(token));
  });

  test('a key store that is locked is asked for again; a new token replaces the gateway', async () => {
    const { pid } = daemon();
    again({ store: 'locked' });
    const questions: string[][] = [];
    shell.ask = async ({ buttons }) => {
      questions.push(buttons);
      if (questions.length === 1) return buttons.indexOf('Try again');
      // Its user has unlocked it, and does not trust what is in it.
      Object.assign(shell.safeStorage, safeStorageOf('present'));
      return buttons.indexOf('Make a new token');
    };
    await desktop.start([]);
    assert.equal(questions.length, 2);
    assert.equal(shell.windows.length, 1);
    assert.notEqual(daemon().pid, pid);
    assert.equal(isRunning(pid), false);
    again();
    await desktop.start([]);
  });

  test('adds another gateway by address and token, and forgets it', async () => {
    shell.press('Add a gateway…');
    const add = shell.addGateway ?? assert.fail();
    const entry = { url: office.url, label: 'Office', token: office.token };
    assert.match((await add({ ...entry, url: 'office' })) ?? '', /^The address must be one such as/);
    assert.match((await add({ ...entry, token: '' })) ?? '', /svc token/);
    assert.match((await add({ ...entry, token: 'f'.repeat(64) })) ?? '', /token is wrong/);
    assert.match((await add({ ...entry, url: 'http://127.0.0.1:1' })) ?? '', /nothing listens there/);
    assert.deepEqual((await desktop.gateways.list()).length, 1);
    // Plain HTTP to another machine is asked about first.
    shell.presses = ['Cancel'];
    assert.equal(await add({ ...entry, url: 'http://192.0.2.1' }), null);
    assert.match(shell.asked[0]?.detail ?? '', /Others on the network can read the token/);

    assert.equal(await add(entry), null);
    assert.ok(await eventually(LONG_MS, () => shell.windows.length === 2));
    assert.equal(shell.windows[1]?.options.partition, 'persist:office');
    assert.match(readFileSync(desktop.gateways.layout('office').token, 'utf8'), /^safeStorage:/);
    assert.deepEqual(shell.labels().slice(0, 7), [
      ...['Console', 'todos', 'Office', '> Console', '> notes', '> Forget this gateway…'],
      'Add a gateway…',
    ]);
    await desktop.follow('svc://open/notes?gateway=office');
    assert.match(shell.windows[2]?.url() ?? '', new RegExp(`:${office.port}/svc/#link=[0-9a-f]+&open=notes$`));

    shell.presses = ['Forget'];
    shell.press('Forget this gateway…');
    assert.ok(await eventually(LONG_MS, () => !shell.labels().includes('Office')));
    assert.equal(existsSync(desktop.gateways.layout('office').dataDir), false);
  });

  test('a configuration that is wrong, and a folder of another host, are said in words', async () => {
    await desktop.stopAndQuit();
    const config = join(dataDir, 'config.json');
    writeFileSync(config, '{ "prot": 1 }');
    again();
    await desktop.start([]);
    assert.match(shell.asked[0]?.message ?? '', /has the unknown key "prot"/);
    rmSync(config);

    const profile = readFileSync(layout.profile, 'utf8');
    writeFileSync(layout.profile, profile.replace('"desktop"', '"plugin"'));
    again();
    await desktop.start([]);
    assert.match(shell.asked[0]?.message ?? '', /belongs to a gateway inside another program\.$/);
    assert.match(shell.asked[0]?.detail ?? '', /Move that folder away/);
    assert.deepEqual([shell.windows, shell.labels()[0]], [[], 'It does not answer']);
    writeFileSync(layout.profile, profile);
  });

  /** A port on which this test listens. */
  async function takenPort(): Promise<number> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    after(() => server.close());
    return (server.address() as AddressInfo).port;
  }

  async function ours(): Promise<TestGateway> {
    await desktop.copyToken();
    const gateway = new TestGateway(dataDir, []);
    return Object.assign(gateway, { url: daemon().url, token: /SVC_TOKEN=(\w+)/.exec(shell.copied)?.[1] });
  }

  const system = async () => (await ours()).system();
  const get = async (path: string) => (await (await ours()).call('GET', path)).status;

  /** What the console does with the link of its address. */
  async function signsIn(link: string, host: string): Promise<number | undefined> {
    const { port } = new URL(daemon().url);
    const sent = request({ port, method: 'POST', path: '/svc/_session', headers: { host, origin: `http://${host}` } });
    sent.end(JSON.stringify({ link }));
    const [answer] = await once(sent, 'response');
    answer.resume();
    return answer.statusCode;
  }
});
