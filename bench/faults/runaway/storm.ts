/** Many apps that crash whenever they are called, called without pause: what it costs, and that it ends. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../../protocol/limits.ts';
import { Layout } from '../../../storage/layout.ts';
import { Counts, outcomeOf } from '../../../testing/clients.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import { cpuMs } from '../../../testing/processes.ts';
import { eventually, pause } from '../../../testing/waiting.ts';
import type { Report } from '../campaign.ts';
import { crashingApp } from './kinds.ts';
import { actorsOf, ended, lasting, processesOf } from './processes.ts';

const APPS = 20;
/** Between the answer to one call of an app and the next. */
const CALL_EVERY_MS = 50;
/** CPU seconds a second that a host may take once its apps are quarantined, and the supervisor for refusing their calls. */
const CALM_HOST = 0.1;
const CALM_SUPERVISOR = 0.5;
/** Windows of the restart intensity in which every app must have been quarantined. */
const PATIENCE_WINDOWS = 4;
/** Bytes of log that one app may have left. */
const LOG_BYTES = 64 * 1024;

export async function runStorm(gateway: TestGateway, seconds: number, report: Report): Promise<void> {
  const violated = (what: string): void => report.violated('storm', what);
  const ids = Array.from({ length: APPS }, (_, n) => `storm-${n}`);
  for (const [n, id] of ids.entries()) await gateway.install(id, crashingApp(id, n % 2 === 0));
  const processes = lasting(await processesOf(gateway));
  const before = await usage(gateway, 2);

  let storming = true;
  const codes = new Counts();
  const clients = ids.map(async (id) => {
    for (let n = 0; storming; n++) {
      codes.count(outcomeOf(await gateway.read(id, 'bad', { n }).catch(() => null)));
      await pause(CALL_EVERY_MS);
    }
  });
  const startedAt = performance.now();
  const first = await usage(gateway, seconds / 3);
  const quarantined = async (): Promise<number> =>
    (await gateway.call('GET', '/svc/_apps')).json.filter(
      ({ id, status }: { id: string; status: string }) => ids.includes(id) && status === 'quarantined',
    ).length;
  // As long as some may still be restarted it is no calm, however short the storm was to be; a machine that is busy with other
  // things needs more than a window until an app has crashed often enough.
  const patienceMs = PATIENCE_WINDOWS * LIMITS.restartWindowMs;
  const areAll = await eventually(patienceMs, async () => (await quarantined()) === APPS, 250);
  const calmAfterMs = performance.now() - startedAt;
  if (!areAll) violated(`Only ${await quarantined()} of ${APPS} apps were quarantined.`);
  const calm = await usage(gateway, seconds / 3);
  storming = false;
  await Promise.all(clients);

  const stormy = (await actorsOf(gateway)).filter(({ app }) => ids.includes(app));
  const most = Math.max(...stormy.map(({ restarts }) => restarts));
  const windows = Math.ceil(calmAfterMs / LIMITS.restartWindowMs);
  if (most > LIMITS.restartIntensity * windows + 1) violated(`An app was restarted ${most} times.`);
  const replaced = ended(processes, lasting(await processesOf(gateway)));
  if (replaced.length > 0) violated(`The storm of crashes ended a process: ${replaced.join('; ')}.`);
  for (const { name, perSecond } of calm)
    if (perSecond > (name === 'supervisor' ? CALM_SUPERVISOR : CALM_HOST))
      violated(`${name} took ${perSecond.toFixed(2)} s of CPU a second when all apps were quarantined.`);
  const logs = ids.map((id) => logBytes(gateway.dataDir, id));
  const largest = Math.max(...logs);
  if (largest > LOG_BYTES) violated(`A crashing app left a log of ${largest} bytes.`);

  if (codes.has('no answer')) violated(`${codes.get('no answer')} calls of crashing apps were not answered.`);
  const cpu = (all: typeof before): string =>
    all.map(({ name, perSecond }) => `${name} ${perSecond.toFixed(2)}`).join(', ');
  report.figure(`storm: calls of ${APPS} apps that crash`, codes.list());
  report.figure('storm: CPU seconds a second before', cpu(before));
  report.figure('storm: … while apps crash', cpu(first));
  report.figure('storm: … when all are quarantined and still called', cpu(calm));
  report.figure('storm: all quarantined after', `${(calmAfterMs / 1000).toFixed(1)} s`);
  report.figure('storm: restarts of one app at most', most);
  report.figure('storm: log of one app at most', `${largest} bytes`);
  report.figure('storm: processes that ended', replaced.join('; ') || 'none');
}

/** CPU seconds that each process takes in a second, over `seconds`; one that ends meanwhile is left out. */
async function usage(gateway: TestGateway, seconds: number): Promise<{ name: string; perSecond: number }[]> {
  const processes = lasting(await processesOf(gateway)).flatMap(({ name, pid }) =>
    pid === null ? [] : [{ name, pid, from: cpuMs(pid) }],
  );
  const startedAt = performance.now();
  await pause(seconds * 1000);
  const elapsed = performance.now() - startedAt;
  // A process that is gone has no CPU time at all.
  return processes.flatMap(({ name, pid, from }) => {
    const to = cpuMs(pid);
    return to < from || to === 0 ? [] : [{ name, perSecond: (to - from) / elapsed }];
  });
}

function logBytes(dataDir: string, app: string): number {
  const { logs } = new Layout(dataDir).app(app);
  const folder = join(logs, '..');
  const files = readdirSync(folder).filter((name) => join(folder, name).startsWith(logs));
  return files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}
