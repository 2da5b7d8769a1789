/** What people cost: a read of somebody who is signed in, a gateway with many people, and the end of a role with many open streams. */
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { consoleHost, enter, type Origin, sessionOf } from '../../testing/origins.ts';
import { codeOf, join, visitor } from '../../testing/people.ts';
import { memoryOf } from '../../testing/processes.ts';
import { APP } from '../bench-app.ts';
import { whileRunning } from '../compare.ts';
import { onGateway } from '../contenders.ts';
import { type Context, type Scenario, sized } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { openConnection } from '../load/connection.ts';
import { addPeople, GROUPS_EACH, personId, sharesOf } from '../many-people.ts';
import { type Finding, fact, type LoadMeasurement, type SideResult, timed } from '../measurements.ts';
import { formatInterval, median, middleFactor } from '../statistics.ts';
import { takeTurns } from '../turns.ts';
import { CHANGES, httpBytes } from '../workload.ts';
import { appIds, crowd } from './crowd.ts';
import { read } from './workloads.ts';

const APPS = { full: 1000, smoke: 20 };
/** One less than there may be, since one more comes by an invitation. */
const MANY = { full: { people: LIMITS.people - 1, groups: LIMITS.groups }, smoke: { people: 100, groups: 20 } };
const FEW = { people: 30, groups: GROUPS_EACH };
const STARTS = { full: 5, smoke: 1 };
/** Until what the start left behind was collected or not; nothing is forced. */
const SETTLE_MS = { full: 2000, smoke: 100 };
/** People who sign in, each at both gateways; the first loads the code, and is not counted. */
const SIGN_INS = { full: 21, smoke: 3 };
const READ_ROUNDS = { full: 60, smoke: 2 };
const IN_FLIGHT = { full: 64, smoke: 4 };
const STREAMS = { full: 1000, smoke: 50 };
const ENDS = { full: 7, smoke: 2 };
/** What a server's queue of new connections takes at once. */
const OPENED_AT_ONCE = 250;
const MiB = 2 ** 20;
/** How a chunked answer ends. */
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

export const peopleScenario: Scenario = {
  name: 'people',
  question: 'What does a signed-in read cost, what do 10,000 people with 100,000 shares, and how soon does a role end?',
  run: async (context) => {
    const apps = appIds(sized(context, APPS));
    const [few, many] = [await data(context, apps), await data(context, apps)];
    await addPeople(context, many, { ...sized(context, MANY), apps });
    const starts = await startsOf(context, few, many);
    await addPeople(context, few, { ...FEW, apps });
    return whileRunning(async (keep) => {
      const start = async (dataDir: string) => keep(await startOn(context, dataDir));
      const [large, small] = [await start(many), await start(few)];
      return [
        ...(await reads(context, large)),
        ...starts,
        ...(await sameWork(context, large, small, apps)),
        ...(await takenAway(context, large)),
      ];
    });
  },
};

/** With the app that is read, too. */
function data(context: Context, apps: string[]): Promise<string> {
  return crowd(context, [APP, ...apps]);
}

function startOn({ config, profileDir }: Context, dataDir: string): Promise<Daemon> {
  return Daemon.start({ dataDir, config, profileDir });
}

/** One read of a page, with the access token and by people. The ratio is how many times as much theirs cost. */
async function reads(context: Context, daemon: Daemon): Promise<(LoadMeasurement | Finding)[]> {
  const grants = [{ app: APP, role: 'viewer' }];
  const viewer = await atApp(daemon, APP, (await join(daemon, 'Viewer', { grants })).origin);
  await share(daemon, APP, { person: personId(1), role: 'editor' });
  const editor = await atApp(daemon, APP, (await signIn(daemon, personId(1))).origin);
  const requests = Array.from({ length: 100 }, (_, i) => read(1 + i * 10).request);
  const side = (name: string, bytes: Buffer[]) => onGateway(name, daemon, context, { requests: bytes });
  const by = ({ headers }: Origin, token: string | null = null) =>
    requests.map((request) => httpBytes({ ...request, headers }, token));
  const names = { viewer: 'a viewer', editor: `an editor in ${GROUPS_EACH} groups` };
  const sides = [
    // It sends the headers of a page, too: they cost the same for every caller.
    side('gateway', by(viewer, daemon.token)),
    side(names.viewer, by(viewer)),
    side(names.editor, by(editor)),
  ];
  const connections = sized(context, IN_FLIGHT);
  for (const one of sides)
    await one.run({ connections, warmUpMs: sized(context, { full: 1500, smoke: 50 }), measureMs: 1 });
  const rounds = sized(context, READ_ROUNDS);
  const measured = await takeTurns(context, sides, {
    scenario: 'people',
    question: 'How many reads of one row a second, with the access token and by people, at {n} in flight?',
    durability: null,
    connections,
    rounds,
    measureMs: (context.options.seconds * 1000) / rounds,
  });
  const detail = `${rounds} rounds of each in turns, ${connections} in flight`;
  const cost = (name: string) => {
    const ratio = measured.ratios[name];
    const [own, other] = [measured.sides.gateway, measured.sides[name]].map((one) => cpuOf(one as SideResult));
    return [
      fact(
        `a read of ${name}, time`,
        ratio?.estimate ?? Number.NaN,
        '×',
        `of one with the access token and the same headers: ${ratio && formatInterval(ratio)}, ${detail}`,
      ),
      fact(
        `a read of ${name}, processor time`,
        (other as number) / (own as number),
        '×',
        `of one with the access token and the same headers, all processes, ${detail}`,
      ),
    ];
  };
  return [measured, ...cost(names.viewer), ...cost(names.editor)];
}

/** Microseconds a request, in all processes but the load's. */
function cpuOf({ cpu: { load: _, ...own } }: SideResult): number {
  return Object.values(own).reduce((sum, used) => sum + used, 0);
}

async function startsOf(context: Context, without: string, many: string): Promise<Finding[]> {
  const { people, groups } = sized(context, MANY);
  const count = sized(context, STARTS);
  const times: [number, number][] = [];
  const added: number[] = [];
  const start = async (dataDir: string) => {
    const daemon = await startOn(context, dataDir);
    try {
      await pause(sized(context, SETTLE_MS));
      return { ready: daemon.readyMs, bytes: memoryOf(daemon.pid).pss };
    } finally {
      await daemon.stop();
    }
  };
  for (let i = 0; i < count; i++) {
    const [one, other] = [await start(many), await start(without)];
    times.push([one.ready, other.ready]);
    added.push(one.bytes - other.bytes);
  }
  const of = `${people} people, ${sharesOf(people, groups)} shares, ${groups} groups, ${sized(context, APPS)} apps`;
  const detail = `median of ${count} starts of each in turns; ${of}`;
  return [
    fact('daemon ready', median(times.map(([ms]) => ms)), 'ms', detail),
    fact('daemon ready, without people', median(times.map(([, ms]) => ms)), 'ms', 'the same without people'),
    fact('daemon ready, of one without people', median(times.map(([one, other]) => one / other)), '×', detail),
    fact('memory of people', median(added) / MiB, 'MiB', `added to the supervisor (PSS), ${detail}`),
  ];
}

/** The same people do the same at a gateway with many others and at one with few, in turns. */
async function sameWork(context: Context, large: Daemon, small: Daemon, apps: string[]): Promise<Finding[]> {
  const runs = sized(context, SIGN_INS);
  const taken = new Map<string, [number, number][]>();
  const steps = async (daemon: Daemon, i: number): Promise<Record<string, number>> => {
    const app = apps[i] as string;
    const { origin, ms } = await signIn(daemon, personId(i));
    const page = await atApp(daemon, app, origin);
    // What everybody was given is found anew after such a change.
    await share(daemon, APP, { everyone: true, role: i % 2 === 0 ? 'viewer' : 'editor' });
    return {
      'a sign-in by a link': ms,
      'the first answer of a page': await timed(async () => {
        const { status, text } = await page.visit('/');
        if (status !== 200) throw new Error(`A page was answered ${status} ${text}`);
      }),
      'the shares of an app': await answerTime(daemon, `/svc/_apps/${app}/shares`),
      'a page of people': await answerTime(daemon, '/svc/_people'),
      'the next page of people': await answerTime(daemon, `/svc/_people?after=${personId(10)}`),
    };
  };
  for (let i = 0; i < runs; i++) {
    const order = i % 2 === 0 ? [large, small] : [small, large];
    const found = new Map<Daemon, Record<string, number>>();
    for (const daemon of order) found.set(daemon, await steps(daemon, i));
    for (const [name, ms] of Object.entries(found.get(large) ?? {}))
      taken.set(name, [...(taken.get(name) ?? []), [ms, found.get(small)?.[name] ?? Number.NaN]]);
  }
  const detail = `median of ${runs - 1}`;
  return [...taken].flatMap(([name, [, ...times]]) => [
    fact(name, median(times.map(([ms]) => ms)), 'ms', detail),
    fact(
      `${name}, of that beside few people`,
      middleFactor(times.map(([one, other]) => one / other)).estimate,
      '×',
      `in turns with a gateway with ${FEW.people} people`,
    ),
  ]);
}

/** From the request that ends a share to the end of the last stream of the person who had it. */
async function takenAway(context: Context, daemon: Daemon): Promise<Finding[]> {
  const person = personId(2);
  const { origin } = await signIn(daemon, person);
  const page = await atApp(daemon, APP, origin);
  const bytes = httpBytes({ ...CHANGES, headers: page.headers }, null);
  const count = sized(context, STREAMS);
  const rounds = sized(context, ENDS);
  // Another share of the app would let the streams go on.
  for (const { id } of await sharesOfApp(daemon)) await unshare(daemon, id);
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const id = await share(daemon, APP, { person, role: 'viewer' });
    const streams: Stream[] = [];
    try {
      while (streams.length < count) {
        const more = Array.from({ length: Math.min(OPENED_AT_ONCE, count - streams.length) }, () =>
          openStream(daemon.port, bytes),
        );
        streams.push(...more);
        await Promise.all(more.map(({ begun }) => begun));
      }
      const all = Promise.all(streams.map(({ ended }) => ended));
      times.push(await timed(() => Promise.all([unshare(daemon, id), all])));
    } finally {
      for (const { socket } of streams) socket.resetAndDestroy();
    }
  }
  const detail = `of ${rounds} times with ${count} open streams`;
  return [
    fact('the end of a role', median(times), 'ms', `until all streams have ended, median ${detail}`),
    fact('the end of a role, longest', Math.max(...times), 'ms', detail),
  ];
}

type Stream = { socket: Socket; begun: Promise<void>; ended: Promise<void> };

/** `begun` rejects with an answer that is no stream. */
function openStream(port: number, request: Buffer): Stream {
  let socket: Socket | undefined;
  let end: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const begun = new Promise<void>((resolve, reject) => {
    socket = openConnection(port, {
      onOpen: () => socket?.write(request),
      onData: (bytes) => {
        const head = bytes.toString('latin1', 0, 200);
        if (head.startsWith('HTTP/1.1') && !head.startsWith('HTTP/1.1 200')) reject(new Error(head));
        resolve();
        if (bytes.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) end();
      },
      onClose: (error) => {
        reject(error);
        end();
      },
    });
  });
  return { socket: socket as unknown as Socket, begun, ended };
}

/** Signs a person in by a one-time link; `ms` is what the sign-in took. */
async function signIn(daemon: Daemon, person: string): Promise<{ origin: Origin; ms: number }> {
  const made = await (await daemon.request('POST', `/svc/_people/${person}/link`, '{}')).json();
  const body = { code: codeOf((made as { url: string }).url) };
  const startedAt = performance.now();
  const joined = await visitor(daemon).call('POST', '/svc/_auth/join', { body });
  const ms = performance.now() - startedAt;
  return { origin: sessionOf(daemon, consoleHost(daemon), joined), ms };
}

function atApp(daemon: Daemon, app: string, console: Origin): Promise<Origin> {
  return enter(daemon, console, { app });
}

/** Shares an app; the id of the share. */
async function share(daemon: Daemon, app: string, body: object): Promise<string> {
  const made = await daemon.request('POST', `/svc/_apps/${app}/shares`, JSON.stringify(body));
  return ((await made.json()) as { id: string }).id;
}

async function sharesOfApp(daemon: Daemon): Promise<{ id: string }[]> {
  return (await (await daemon.request('GET', `/svc/_apps/${APP}/shares`)).json()) as { id: string }[];
}

async function unshare(daemon: Daemon, id: string): Promise<void> {
  await (await daemon.request('DELETE', `/svc/_apps/${APP}/shares/${id}`)).text();
}

function answerTime(daemon: Daemon, path: string): Promise<number> {
  return timed(async () => (await daemon.request('GET', path)).text());
}
