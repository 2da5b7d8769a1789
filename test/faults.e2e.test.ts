import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { compareIdentity } from '../storage/processes/process-identity.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { startGateway, TestGateway } from '../testing/gateway.ts';
import { type Child, childrenOf, isStopped } from '../testing/processes.ts';
import { Load, ledgerApp, verify } from '../testing/write-ledger.ts';

// Each process of the tree killed or stopped once under load, and ends of every kind: nothing acknowledged is lost, and
// it recovers by itself. `npm run faults` does the same hundreds of times, at moments that a seed chooses.

let apps = 0;

/** Another app for each test. */
async function install(gateway: TestGateway): Promise<string> {
  const app = `ledger-${++apps}`;
  await gateway.install(app, ledgerApp(app));
  return app;
}

const startLoad = async (t: TestContext, gateway: TestGateway): Promise<Load> =>
  loadOf(t, gateway, await install(gateway));

/** A load that ends with its test, failed or not. */
function loadOf(t: TestContext, gateway: TestGateway, app: string): Load {
  const load = new Load(gateway, { apps: [app], clients: 12 });
  t.after(() => load.stop());
  return load;
}

async function end(gateway: TestGateway, load: Load): Promise<void> {
  await load.stop();
  assert.deepEqual([...load.violations, ...verify(gateway.dataDir, load).violations], []);
}

function child(gateway: TestGateway, role: Child['role']): Child {
  const found = childrenOf(gateway.pid).find((one) => one.role === role);
  assert.ok(found, `there is no ${role}`);
  return found;
}

/** The pid of the host with the thread of `app`: an app that took down several hosts has one of its own beside the shared one. */
async function hostOf(gateway: TestGateway, app: string): Promise<number> {
  type Process = { pid: number; actors?: { app: string }[] };
  const { processes } = (await gateway.system()) as { processes: Process[] };
  const found = processes.find(({ actors }) => actors?.some((actor) => actor.app === app));
  assert.ok(found, `no host has ${app}`);
  return found.pid;
}

const sockets = mkdtempSync(join(tmpdir(), 'svc-test-'));
const gateway = gatewayOfSuite({ env: { TMPDIR: sockets } });
after(() => rmSync(sockets, { recursive: true, force: true }));

describe('under load', () => {
  for (const role of ['writer', 'host'] as const) {
    test(`a ${role} that is killed is replaced, and nothing acknowledged is lost`, async (t) => {
      const load = await startLoad(t, gateway);
      for (let round = 1; round <= 3; round++) {
        await load.more(50);
        const killed = child(gateway, role);
        const at = performance.now();
        process.kill(killed.pid, 'SIGKILL');
        await load.healed(at);
        assert.notEqual(child(gateway, role).pid, killed.pid);
      }
      await end(gateway, load);
      const { processes } = await gateway.system();
      assert.equal(processes.find((one: { role: string }) => one.role === role).restarts, 3);
      for (const outcome of load.outcomes.keys()) assert.match(outcome, /^(201|500 HANDLER_ERROR)$/);
    });
  }

  test('a stopped host is found by its heartbeat and replaced; its late answers are not used', async (t) => {
    const app = await install(gateway);
    const load = loadOf(t, gateway, app);
    await load.more(50);
    const stopped = await hostOf(gateway, app);
    process.kill(stopped, 'SIGSTOP');
    await eventually(() => isStopped(stopped));
    await load.healed(performance.now());
    assert.notEqual(await hostOf(gateway, app), stopped);
    await end(gateway, load);
  });

  test('a supervisor that is killed, alone or with all others: the next daemon finds every acknowledged write and leaves nothing of the dead one behind', async (t) => {
    const load = await startLoad(t, gateway);
    for (const others of [false, true]) {
      await load.more(50);
      const at = performance.now();
      const family = childrenOf(gateway.pid);
      if (others) for (const { pid } of family) process.kill(pid, 'SIGKILL');
      await gateway.kill();
      await gateway.start();
      assert.deepEqual(
        family.filter((one) => compareIdentity(one) === 'same'),
        [],
      );
      assert.equal(readdirSync(sockets).length, 1, 'the socket folder of the dead daemon is left');
      await load.healed(at);
    }
    await end(gateway, load);
  });

  test('a supervisor that was stopped itself ends no healthy process and no healthy thread', async (t) => {
    const gateway = await startGateway(t, { config: { actionTimeoutMs: 1000 } });
    const load = await startLoad(t, gateway);
    await load.more(50);
    const family = childrenOf(gateway.pid);
    process.kill(gateway.pid, 'SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, 2500));
    process.kill(gateway.pid, 'SIGCONT');
    await load.healed(performance.now());
    await load.more(200);
    assert.deepEqual(childrenOf(gateway.pid), family);
    const { counters } = await gateway.system();
    assert.deepEqual(
      Object.entries(counters.retired).filter(([, count]) => count !== 0),
      [],
    );
    await end(gateway, load);
  });
});

test('when the writer dies, subscribers of apps with a live thread get a reset', async () => {
  const app = await install(gateway);
  assert.equal((await gateway.write(app, 'put', { key: 'k', value: 1 })).status, 201);
  const stream = await gateway.stream(`/svc/${app}/_changes`);
  process.kill(child(gateway, 'writer').pid, 'SIGKILL');
  assert.equal((await stream.next()).event, 'reset');
  stream.close();
});

test('SIGTERM lets calls end, closes streams and exits 0', async (t) => {
  const app = await install(gateway);
  const load = loadOf(t, gateway, app);
  const stream = await gateway.stream(`/svc/${app}/_changes`);
  await load.more(20);
  assert.equal(await gateway.stop(), 0);
  await stream.ended();
  await load.stop();
  await gateway.start();
  await end(gateway, load);
});

test('a second daemon on the same data directory refuses to start and names the first', async () => {
  const second = new TestGateway(gateway.dataDir, []);
  await assert.rejects(second.start());
  await second.stop();
  assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
});
