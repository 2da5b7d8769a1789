/** Thousands of apps on one machine, beside workerd with as many Durable Objects: memory, cold and warm reads, restarts, lists, backups. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { BackupStatus } from '../../protocol/routes/operations/backups-rows.ts';
import { findChromium, startChromium } from '../../testing/chromium.ts';
import { linkTo } from '../../testing/pages.ts';
import { memoryOfAll, type NamedProcess } from '../../testing/processes.ts';
import { Random } from '../../testing/random.ts';
import { benchApp, ROWS } from '../bench-app.ts';
import { whileRunning } from '../compare.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { type LoadResult, merge } from '../load/task.ts';
import { type Finding, fact, timed } from '../measurements.ts';
import { ROOT, type Server } from '../servers.ts';
import { median, percentile } from '../statistics.ts';
import { httpBytes, plainRequest, type Request } from '../workload.ts';
import { READY } from './console.ts';
import { addCopies, appIds, crowd } from './crowd.ts';
import { PROGRAMS, WORKERD } from './peers.ts';
import { read } from './workloads.ts';
import { zipf } from './zipf.ts';

const SIZES = {
  full: { apps: 5000, starts: 3, pieces: 10, publications: 20, times: 5 },
  smoke: { apps: 50, starts: 1, pieces: 2, publications: 2, times: 1 },
};
/** Minutes of the Zipf load in a smoke run. */
const SMOKE_MINUTES = 0.02;
const CONNECTIONS = 4;
/** Calls after which the Zipf load comes round again. */
const CALLS = 50_000;
const SETTLE_MS = { full: 3000, smoke: 200 };
/** Between two looks whether a backup is there. */
const LOOK_MS = 50;
const MiB = 2 ** 20;
const TARGETS = ['/svc/_apps?limit=500', '/svc/_system', '/svc/_metrics'];

export const densityScenario: Scenario = {
  name: 'density',
  question: 'What do 5,000 apps take of one machine: memory, cold and warm reads, a restart, lists, a backup?',
  run: async (context) => {
    const size = sized(context, SIZES);
    const apps = appIds(context.options.apps ?? size.apps);
    context.progress(`  ${apps.length} apps are made`);
    // Quiet apps keep no results in these calls: each reads another row.
    const quiet = { 'app.json': JSON.stringify({ ...manifest(), id: apps[0], cache: true }) };
    const dataDir = await crowd(context, apps, quiet);
    const found = await restarts(context, dataDir, size.starts, `${apps.length} apps`);
    found.push(...(await whileRunning((keep) => besideWorkerd(context, keep, dataDir, apps))));
    const twice = appIds(2 * apps.length);
    await addCopies(context, dataDir, twice[0] as string, twice.slice(apps.length));
    found.push(...(await restarts(context, dataDir, 1, `${twice.length} apps, no load`)));
    return found;
  },
};

function manifest(): object {
  return JSON.parse(benchApp()['app.json'] as string) as object;
}

/** How soon the gateway is there with these apps, and the memory of all its processes then. */
async function restarts(context: Context, dataDir: string, starts: number, which: string): Promise<Finding[]> {
  const ready: number[] = [];
  const memory: number[] = [];
  for (let i = 0; i < starts; i++) {
    await withDaemon(
      context,
      async (daemon) => {
        ready.push(daemon.readyMs);
        await wait(sized(context, SETTLE_MS));
        memory.push(memoryOfAll(daemon.processes).pss);
      },
      { dataDir },
    );
  }
  const detail = `median of ${starts} starts`;
  return [
    fact(`restart, ${which}`, median(ready), 'ms', `until it accepts requests, ${detail}`),
    fact(`memory after it, ${which}`, median(memory) / MiB, 'MiB', `PSS of all processes, ${detail}`),
  ];
}

type Keep = Parameters<Parameters<typeof whileRunning>[0]>[0];
/** One that is asked about its apps: the request for a row of one. */
type Side = { name: string; server: Server; processes(): NamedProcess[]; requestFor(app: string, id: number): Buffer };

async function besideWorkerd(context: Context, keep: Keep, dataDir: string, apps: string[]): Promise<Finding[]> {
  const { config } = context;
  const daemon = keep(await Daemon.start({ dataDir, config }));
  const gateway: Side = {
    name: 'gateway',
    server: daemon,
    processes: () => daemon.processes,
    requestFor: (app, id) => httpBytes(read(id, app).request as Request, daemon.token),
  };
  const workerd = await startWorkerd(context, keep, apps);
  const sides = [gateway, ...(workerd ? [workerd] : [])];
  const found = await coldReads(context, sides, apps);
  await daemon.refresh();
  found.push(...openFiles(daemon), ...(await zipfLoad(context, sides, apps)));
  await daemon.refresh();
  found.push(...openFiles(daemon, ' after the load'));
  return [...found, ...(await operations(context, daemon, apps)), ...(await publications(context, daemon))];
}

/** It has made its objects before, as the gateway has its apps, and has none of them in memory. */
async function startWorkerd(context: Context, keep: Keep, apps: string[]): Promise<Side | null> {
  if (!existsSync(join(PROGRAMS, 'workerd'))) {
    context.progress('  workerd is not installed, so it is left out: npm install --no-save --prefix bench/peers');
    return null;
  }
  const folder = context.newFolder();
  const requestFor = (app: string, id: number) => httpBytes(plainRequest('get', { id }, app), 'none');
  const maker = await WORKERD.start(folder, {});
  const made = await callOnce(
    context,
    maker,
    apps.map((app) => requestFor(app, 1)),
  );
  await maker.stop();
  context.progress(`  workerd has made ${made.answered} objects`);
  const server = keep(await WORKERD.start(folder, {}));
  return { name: 'workerd', server, processes: () => server.processes, requestFor };
}

/** Sends each request once, one after the other. */
function callOnce({ generators }: Context, { port }: Server, requests: Uint8Array[]): Promise<LoadResult> {
  return generators.run({ port, connections: 1, requests, warmUpMs: 0, measureMs: 600_000, burst: true });
}

/** Each app is called once, and once more at once; the sides take turns. */
async function coldReads(context: Context, sides: Side[], apps: string[]): Promise<Finding[]> {
  const { pieces } = sized(context, SIZES);
  const before = sides.map(({ processes }) => memoryOfAll(processes()).pss);
  const cold = sides.map((): LoadResult[] => []);
  const warm = sides.map((): LoadResult[] => []);
  const each = Math.ceil(apps.length / pieces);
  for (let at = 0; at < apps.length; at += each) {
    const some = apps.slice(at, at + each);
    for (const [i, { server, requestFor }] of sides.entries()) {
      cold[i]?.push(
        await callOnce(
          context,
          server,
          some.map((app) => requestFor(app, 2)),
        ),
      );
      // The last ones: fewer than may be in memory at a time.
      warm[i]?.push(
        await callOnce(
          context,
          server,
          some.slice(-100).map((app) => requestFor(app, 3)),
        ),
      );
    }
  }
  await wait(sized(context, SETTLE_MS));
  return sides.flatMap(({ name, processes }, i) => {
    const after = memoryOfAll(processes()).pss;
    const grown = after - (before[i] as number);
    const detail = `${apps.length} apps called once`;
    return [
      ...latencies(
        `${name}: cold read`,
        cold[i] as LoadResult[],
        `first call of each of ${apps.length} apps, one after the other`,
      ),
      ...latencies(
        `${name}: warm read`,
        warm[i] as LoadResult[],
        'second call of apps that were just called, another row',
      ),
      fact(`${name}: memory, all processes`, after / MiB, 'MiB', `PSS, ${detail}`),
      fact(`${name}: memory an app`, after / apps.length / MiB, 'MiB', `all of it over all apps, ${detail}`),
      fact(`${name}: memory that the calls added`, grown / MiB, 'MiB', `PSS, ${detail}`),
    ];
  });
}

function latencies(name: string, results: LoadResult[], detail: string): Finding[] {
  const { latencies: all, failed, firstFailure } = merge(results);
  if (failed > 0) throw new Error(`${name}: ${failed} calls failed: ${firstFailure}`);
  const of = `${detail}, ${all.length} calls`;
  return [
    fact(`${name}, p50`, median(all), 'ms', of),
    fact(`${name}, p99`, percentile(all, 0.99), 'ms', of),
    fact(`${name}, worst`, Math.max(...all), 'ms', of),
  ];
}

/** The second app gets half as many calls as the first, and so on, at the rate of the command line; the sides take turns. */
async function zipfLoad(context: Context, sides: Side[], apps: string[]): Promise<Finding[]> {
  const { options, generators } = context;
  const { pieces } = sized(context, SIZES);
  const minutes = options.smoke ? SMOKE_MINUTES : options.minutes;
  const random = new Random(1);
  const rank = zipf(apps.length, random);
  const calls = Array.from({ length: CALLS }, () => ({ app: apps[rank()] as string, id: random.between(1, ROWS) }));
  const results = sides.map((): LoadResult[] => []);
  const requests = sides.map(({ requestFor }) => calls.map(({ app, id }) => requestFor(app, id)));
  for (let piece = 0; piece < pieces; piece++) {
    for (const [i, { server }] of sides.entries()) {
      const from = Math.floor((CALLS / pieces) * piece);
      const all = requests[i] as Buffer[];
      results[i]?.push(
        await generators.run({
          port: server.port,
          connections: CONNECTIONS,
          requests: [...all.slice(from), ...all.slice(0, from)],
          warmUpMs: 0,
          measureMs: (minutes * 60_000) / pieces,
          intervalMs: (CONNECTIONS * 1000) / options.rate,
        }),
      );
    }
  }
  return sides.flatMap(({ name, processes }, i) => {
    const detail = `Zipf over ${apps.length} apps, ${options.rate} calls a second for ${minutes} minutes`;
    return [
      ...latencies(`${name}: under Zipf`, results[i] as LoadResult[], detail),
      fact(`${name}: memory under Zipf`, memoryOfAll(processes()).pss / MiB, 'MiB', `PSS of all processes, ${detail}`),
    ];
  });
}

/** Of the process that has most of them. */
function openFiles(daemon: Daemon, when = ''): Finding[] {
  const counts = daemon.processes.map(({ name, pid }) => ({ name, open: readdirSync(`/proc/${pid}/fd`).length }));
  const { name, open } = counts.reduce((most, one) => (one.open > most.open ? one : most));
  const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${daemon.pid}/limits`, 'utf8')) ?? [];
  return [fact(`open files${when}`, open, '', `of ${name}, which has most of them; each process may have ${limit}`)];
}

/** What an operator looks at. */
async function operations(context: Context, daemon: Daemon, apps: string[]): Promise<Finding[]> {
  const { times } = sized(context, SIZES);
  const found: Finding[] = [];
  for (const target of TARGETS) {
    const took: number[] = [];
    let bytes = 0;
    for (let i = 0; i < times; i++) {
      took.push(
        await timed(async () => {
          bytes = (await (await daemon.request('GET', target)).text()).length;
        }),
      );
    }
    found.push(fact(target, median(took), 'ms', `median of ${times}, ${Math.round(bytes / 1024)} KiB`));
  }
  const status: number[] = [];
  for (let i = 0; i < times; i++) status.push(await timed(() => svcStatus(daemon)));
  found.push(fact('svc status', median(status), 'ms', `median of ${times}, the start of the command included`));
  if (findChromium() !== undefined) found.push(await consoleHome(daemon, times, apps.length));
  const backup = await timed(() => makeBackup(daemon));
  const [file] = (await (await daemon.request('GET', '/svc/_backups/files')).json()) as { bytes: number }[];
  const each = `${Math.round((file?.bytes ?? 0) / MiB)} MiB, made and verified, ${apps.length} apps`;
  return [...found, fact('a backup', backup, 'ms', each), fact('a backup, an app', backup / apps.length, 'ms', each)];
}

async function makeBackup(daemon: Daemon): Promise<void> {
  await daemon.request('POST', '/svc/_backups/files');
  for (;;) {
    const status = (await (await daemon.request('GET', '/svc/_backups')).json()) as BackupStatus;
    if (status.lastFailure !== null) throw new Error(status.lastFailure.message);
    if (!status.running && status.lastSuccess !== null) return;
    await wait(LOOK_MS);
  }
}

async function svcStatus(daemon: Daemon): Promise<void> {
  const args = [join(ROOT, 'bin/svc.js'), 'status', '--url', daemon.url];
  const child = spawn(process.execPath, args, {
    stdio: 'ignore',
    env: { ...process.env, SVC_TOKEN: daemon.token },
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`svc status ended with ${code}.`);
}

async function consoleHome(daemon: Daemon, times: number, apps: number): Promise<Finding> {
  const browser = await startChromium();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(await linkTo(daemon));
    await page.locator('.app-card').first().waitFor();
    const ready: number[] = [];
    for (let i = 0; i < times; i++) {
      await page.reload();
      ready.push(await page.evaluate<number>(READY));
    }
    const nodes = await page.evaluate<number>("document.querySelectorAll('*').length");
    return fact(
      'console home',
      median(ready),
      'ms',
      `median of ${times} loads, signed in, ${apps} apps, ${nodes} elements`,
    );
  } finally {
    await browser.close();
  }
}

/** New apps, one after the other, in turns with a gateway that has none. */
async function publications(context: Context, full: Daemon): Promise<Finding[]> {
  const { publications: count } = sized(context, SIZES);
  return withDaemon(context, async (empty) => {
    const took = new Map<Daemon, number[]>([
      [full, []],
      [empty, []],
    ]);
    for (let i = 0; i <= count; i++) {
      const app = `published-${i}`;
      for (const [daemon, times] of took) {
        const ms = await timed(() => daemon.install(app, benchApp(app)));
        // The first one starts the process of jobs.
        if (i > 0) times.push(ms);
      }
    }
    const [many = [], few = []] = [...took.values()];
    const detail = `median of ${count} new apps, one after the other`;
    return [
      fact('a publication', median(many), 'ms', detail),
      fact('a publication beside few apps', median(few), 'ms', `${detail}, in turns`),
    ];
  });
}
