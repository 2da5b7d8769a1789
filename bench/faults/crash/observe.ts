/** What a gateway and its data directory are like, in a form that is the same for the same state. */
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { checkDaemon, checkDataDirectory } from '../../../cli/commands/operations/doctor-command.ts';
import { isAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { namesInSync } from '../../../storage/files/atomic-file.ts';
import { countLoose } from '../../../storage/git/packing.ts';
import type { CodeStorePaths } from '../../../storage/layout.ts';
import { eventually, pause } from '../../../testing/waiting.ts';
import { git } from '../stored.ts';
import { leftOfWorkspaces, lookAtData, lookAtWorkspaces } from './observe-workspaces.ts';
import { get, type World } from './world.ts';

export type Observation = Awaited<ReturnType<typeof look>>;
type AppView = Awaited<ReturnType<typeof lookAtApp>>;

const HEAL_MS = 60_000;
const SWEEP_MS = 5_000;
const POLL_MS = 50;

/**
 * Asks until every answer is a good one: a process that died is replaced meanwhile. Rejects with what is still wrong after
 * 60 s, and at once when the gateway's own process ends.
 */
export async function observe(world: World): Promise<Observation> {
  const until = Date.now() + HEAL_MS;
  for (;;) {
    try {
      return await look(world);
    } catch (error) {
      if (!world.gateway.isRunning || Date.now() > until) throw error;
      await pause(POLL_MS);
    }
  }
}

async function look(world: World) {
  const { gateway, layout, oldToken } = world;
  gateway.token = readFileSync(layout.token, 'utf8').trim();
  const rotated = oldToken !== '' && gateway.token !== oldToken;
  const records = (await get(world, '/svc/_apps')) as { id: string; name: string }[];
  if (rotated && (await gateway.call('GET', '/svc/_apps', { token: oldToken })).status !== 401)
    throw new Error('The old token is taken beside the new one.');
  const apps: AppView[] = [];
  for (const { id, name } of records) apps.push(await lookAtApp(world, id, name));
  await checkMain(world, apps);
  const main = apps.some(({ id }) => id === 'main');
  return {
    apps,
    workspaces: await lookAtWorkspaces(world),
    settings: main ? ((await get(world, '/svc/_apps/main/settings')) as { settings: unknown }).settings : null,
    preferences: ((await get(world, '/_svc-user/prefs')) as { prefs: unknown }).prefs,
    // The apps in it, as a set: a copy to another disk that is cut off at its very end is made again.
    trash: [...new Set(readdirSync(layout.trashDir).map((name) => name.replace(/-\d{13}$/, '')))].sort(),
    token: rotated ? 'new' : 'old',
  };
}

/** On the git store main has the apps that are registered, as they are live, and git finds nothing wrong. */
async function checkMain(world: World, apps: AppView[]): Promise<void> {
  const { layout } = world;
  if (layout.codeStore === null) return;
  // An object that becomes a packed one between two looks of git is missing for it.
  await eventually(HEAL_MS, async () => {
    // A connection that is idle for long would be closed.
    await get(world, '/svc/_apps');
    return !isPacking(world);
  });
  const { repository, activeMain } = layout.codeStore;
  const said = (...args: string[]) => git(repository, ...args).trim();
  const faults = said('fsck', '--strict', '--no-dangling');
  if (faults !== '') throw new Error(`git fsck says: ${faults}`);
  const onMain = said('ls-tree', '--name-only', 'main', 'apps/').split('\n').filter(Boolean);
  const registered = apps.map(({ id }) => `apps/${id}`);
  if (onMain.join() !== registered.sort().join()) throw new Error(`main has ${onMain}; registered are ${registered}.`);
  for (const { id, active } of apps) {
    const { version } = JSON.parse(said('show', `main:apps/${id}/app.json`)) as { version: string };
    if (version !== active) throw new Error(`main has ${id} ${version}, and ${active} is live.`);
  }
  const live = readFileSync(activeMain, 'utf8').trim();
  if (live !== said('rev-parse', 'main')) throw new Error(`active-main is ${live}, not main.`);
}

/** Whether there is more to pack, or what was begun is not finished. */
export function isPacking({ layout }: World): boolean {
  const { repository } = layout.codeStore as CodeStorePaths;
  const isMarked = readdirSync(join(repository, 'objects', 'pack')).some((name) => /\.keep$|^tmp_/.test(name));
  return isMarked || countLoose(repository) >= LIMITS.gitLooseObjects;
}

async function lookAtApp(world: World, id: string, name: string) {
  const versions = (await get(world, `/svc/_apps/${id}/versions`)) as { version: string; active: boolean }[];
  const which = await world.gateway.read(id, 'which');
  if (which.status !== 200) throw new Error(`${id}/which answers ${which.status} ${which.text}`);
  return {
    id,
    name,
    active: versions.find(({ active }) => active)?.version ?? null,
    // Newest first.
    versions: versions.map(({ version }) => version),
    // The code, and the data that it found.
    which: which.json as unknown,
    ...lookAtData(world.layout.app(id).data),
    automations: await lookAtAutomations(world, id),
  };
}

/** Of webhooks only whether there is one: the address is another one each time. */
async function lookAtAutomations(world: World, app: string) {
  const { rows, errors } = (await get(world, `/svc/_automations?app=${app}`)) as {
    rows: { id: string; enabled: boolean; triggers: { kind: string; id?: string; signing?: boolean }[] }[];
    errors: unknown[];
  };
  if (errors.length > 0) throw new Error(`${app}: damaged automations: ${JSON.stringify(errors)}`);
  const keys = webhookKeys(world, app);
  return rows.map(({ id, enabled, triggers }) => {
    const webhook = triggers.find(({ kind }) => kind === 'webhook');
    if (webhook?.id === undefined) return { id, enabled, webhook: webhook === undefined ? null : 'pending' };
    if (webhook.signing && !keys.includes(webhook.id)) throw new Error(`${app}/${id} is signed and has no key.`);
    return { id, enabled, webhook: webhook.signing ? 'minted, with its key' : 'minted' };
  });
}

/** Addresses of webhooks whose keys are kept. */
function webhookKeys({ layout }: World, app: string): string[] {
  const path = layout.app(app).webhookKeys;
  return existsSync(path) ? Object.keys(JSON.parse(readFileSync(path, 'utf8')) as object) : [];
}

/** What no operation under way accounts for and nothing will remove; waits for the sweep that follows a start. */
export async function leftovers(world: World): Promise<string[]> {
  await eventually(SWEEP_MS, () => findLeftovers(world).length === 0);
  return findLeftovers(world);
}

function findLeftovers(world: World): string[] {
  const { layout } = world;
  const found = new Set<string>();
  for (const what of leftOfWorkspaces(world)) found.add(what);
  for (const name of namesInSync(layout.journalDir)) found.add(join(layout.journalDir, name));
  const { codeStore } = layout;
  if (codeStore !== null) {
    const packs = join(codeStore.repository, 'objects', 'pack');
    for (const name of namesInSync(packs)) if (/\.keep$|^tmp_/.test(name)) found.add(join(packs, name));
    const used = namesInSync(layout.appsDir).flatMap((id) =>
      isAppId(id)
        ? namesInSync(layout.app(id).versionsDir).map((name) => realpathSync(join(layout.app(id).versionsDir, name)))
        : [],
    );
    for (const sha of namesInSync(codeStore.mainDir)) {
      for (const id of namesInSync(join(codeStore.mainDir, sha, 'apps'))) {
        const code = realpathSync(codeStore.materialized(sha, id));
        if (!used.includes(code)) found.add(`${code}, which belongs to no version`);
      }
    }
  }
  for (const dir of [layout.dataDir, layout.appsDir]) {
    for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
      if (name.endsWith('.tmp')) found.add(join(dir, name));
    }
  }
  for (const name of readdirSync(layout.tmpDir)) found.add(join(layout.tmpDir, name));
  const { apps } = JSON.parse(readFileSync(layout.registry, 'utf8')) as { apps: Record<string, unknown> };
  for (const id of readdirSync(layout.appsDir)) {
    if (!isAppId(id)) continue;
    if (!(id in apps)) found.add(`${layout.app(id).dir}, which is not registered`);
    const { preparedDir, versionsDir } = layout.app(id);
    if (!existsSync(versionsDir)) continue;
    const whole = readdirSync(versionsDir);
    const files = readdirSync(versionsDir, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('/automation.json'))
      .map((name) => readFileSync(join(versionsDir, name), 'utf8'));
    for (const slug of webhookKeys(world, id)) {
      if (!files.some((text) => text.includes(slug))) found.add(`the key of a webhook of ${id} that no version has`);
    }
    for (const version of readdirSync(preparedDir)) {
      if (!whole.includes(version)) found.add(`${join(preparedDir, version)}, which has no code`);
    }
  }
  return [...found];
}

/** What `svc doctor` has to say of the data directory and of the gateway on it. */
export async function complaints({ layout }: World): Promise<string[]> {
  const surroundings = { env: {}, cwd: '/', platform: process.platform };
  const checks = [
    ...checkDataDirectory(layout.dataDir, surroundings),
    ...(await checkDaemon(layout.dataDir, surroundings)),
  ];
  return checks
    .filter(({ state }) => state !== 'ok')
    .map(({ name, finding }) => `svc doctor says of the ${name}: ${finding}`);
}
