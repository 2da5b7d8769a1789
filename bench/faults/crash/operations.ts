/** The operations that are crashed between their steps: `operations.json`, and what of them takes more than one call. */
import type { Random } from '../../../testing/random.ts';
import { eventually } from '../../../testing/waiting.ts';
import { rotateToken } from '../changes.ts';
import { automationFiles, draftTool, filePath } from './authoring-scenes.ts';
import { isPacking } from './observe.ts';
import TABLE from './operations.json' with { type: 'json' };
import type { Operation } from './scenes.ts';
import { automatedVersionOf, call, versionOf, type World } from './world.ts';

const PACK_MS = 20_000;
/** One of each kind that changes most is always drawn. */
const DRAWN = [/upload/, /activation|rollback|publi/, /migration/];
const OTHERS = 2;

const STEPS = {
  rollBack: (world: World) => activate(world, '1.0.0'),
  activateThird: (world: World) => activate(world, '3.0.0'),
  deleteVersion: async (world: World) =>
    call('DELETE', `/svc/_apps/main/versions/${encodeURIComponent(await idOf(world, '1.0.0'))}`)(world),
  callDraft: call('POST', draftTool('svc_read'), { app: 'main', query: 'which' }),
  migrateDraft,
  deleteTrashed: async (world: World) => call('DELETE', `/svc/_trash/${await trashedGone(world)}`)(world),
  restoreGone: async (world: World) => call('POST', `/svc/_trash/${await trashedGone(world)}/restore`)(world),
  rotateToken: rotate,
  start,
  startAndPack,
  stop,
};

/** One of `upload` (version 3 of the app), `call` and `steps`; `manifest: null` stands for that of an automation. */
type Entry = Omit<Operation, 'run' | 'scene'> & {
  upload?: { app: string; query?: string; broken?: true; automated?: true };
  call?: [method: string, path: string, body?: object | string];
  steps?: keyof typeof STEPS;
};

const AUTOMATION = JSON.parse(automationFiles('new')['automations/new/automation.json'] as string) as object;

function runOf({ upload, call: made, steps }: Entry): Operation['run'] {
  if (upload !== undefined) {
    const { app, query, broken = false, automated = false } = upload;
    const files = (automated ? automatedVersionOf : versionOf)(app, 3, broken);
    return async ({ gateway }) => (await gateway.upload(app, files, query)).status;
  }
  if (made === undefined) return STEPS[steps as keyof typeof STEPS];
  const [method, path, body] = made;
  if (typeof body === 'string') return call(method, path, Buffer.from(body));
  const isNew = body !== undefined && 'manifest' in body && body.manifest === null;
  return call(method, path, isNew ? { ...body, manifest: AUTOMATION } : body);
}

const { onEither, tarball, git } = TABLE as unknown as {
  onEither: Entry[];
  tarball: (Entry & Operation)[];
  git: (Entry & Operation)[];
};

export const OPERATIONS: Operation[] = [
  ...onEither.map((one): Operation => ({ ...one, scene: 'plain', run: runOf(one) })),
  ...tarball.map((one): Operation => ({ ...one, run: runOf(one) })),
  ...onEither.map((one): Operation => ({ name: `${one.name}, git`, scene: 'git', run: runOf(one), again: one.again })),
  ...git.map((one): Operation => ({ ...one, run: runOf(one) })),
];

/** Those of a short campaign: others with each seed. */
export function drawOperations(from: Operation[], random: Random): Operation[] {
  const shuffled = random.shuffled(from);
  const drawn = new Set<Operation | undefined>();
  for (const kind of DRAWN) drawn.add(shuffled.find((one) => kind.test(one.name) && !drawn.has(one)));
  for (const one of shuffled.filter((other) => !drawn.has(other)).slice(0, OTHERS)) drawn.add(one);
  return from.filter((operation) => drawn.has(operation));
}

async function activate(world: World, version: string): Promise<number> {
  return call('POST', '/svc/_apps/main/activate', { versionId: await idOf(world, version) })(world);
}

/** The id under which a version is stored; one that no version has when it is not. */
async function idOf({ gateway }: World, version: string): Promise<string> {
  const { json } = await gateway.call('GET', '/svc/_apps/main/versions');
  const versions = json as { versionId: string; version: string }[];
  return versions.find((one) => one.version === version)?.versionId ?? 'none';
}

/** The removed app in the trash; an id that is not there when it is not. */
async function trashedGone({ gateway }: World): Promise<string> {
  const { json } = await gateway.call('GET', '/svc/_trash');
  return (json as { id: string }[])[0]?.id ?? 'gone-1500000000000';
}

async function rotate({ layout, plan }: World): Promise<number> {
  const { code } = await rotateToken(layout.dataDir, plan.env);
  if (code === null) throw new Error('svc token rotate was ended.');
  return code;
}

async function start(world: World): Promise<number> {
  if (!world.gateway.isRunning) await world.start();
  return 0;
}

/** It is done in the background: by the next start, where jobs died so often that this one leaves it. */
async function startAndPack(world: World): Promise<number> {
  for (let starts = 0; starts < 3; starts++) {
    await start(world);
    const isPacked = await eventually(PACK_MS, async () => {
      if (!world.gateway.isRunning) throw new Error('The gateway was ended.');
      // A connection that is idle for long is closed; one that was, by now, is opened anew.
      await world.gateway.call('GET', '/svc/_apps').catch(() => {});
      return !isPacking(world);
    });
    if (isPacked) return 0;
    await stop(world);
  }
  throw new Error('It does not pack.');
}

async function stop(world: World): Promise<number> {
  const code = await world.gateway.stop();
  if (code === null) throw new Error('The gateway was ended.');
  return code;
}

async function migrateDraft(world: World): Promise<number> {
  const migration = 'migrations/0002_extra.sql';
  const body = Buffer.from(versionOf('main', 3)[migration] as string);
  const written = await world.gateway.call('PUT', filePath('main', migration), { body });
  return written.status >= 400 ? written.status : STEPS.callDraft(world);
}
