/** Scenes with a workspace `work`: files that were edited and not published, another app, drafts with data. */
import { automation } from '../../../testing/apps.ts';
import { automatedVersionOf, expectStatus, versionOf, type World } from './world.ts';

export const WORKSPACE = 'work';

/** By name: what is done to the scene `git` once its workspace is open, after which the gateway is stopped. */
export const AUTHORING_SCENES = {
  /** Its app has migrations and an automation more, and a file that is to go. */
  'git-workspace': async (world: World) => {
    await change(world, 'main', { ...versionOf('main', 3), 'notes.md': 'first\n' });
    await change(world, 'main', automationFiles('plain'));
  },
  /** Its app differs in code alone. */
  'git-edited': (world: World) => change(world, 'main', edited()),
  'git-broken': (world: World) => change(world, 'main', automatedVersionOf('main', 3, true)),
  /** It has an app that is not published yet. */
  'git-new': async (world: World) => {
    const body = { id: 'fresh', sessionId: WORKSPACE };
    await expectStatus(201, world.gateway.call('POST', '/svc/_apps', { body }));
    for (const path of ['actions/add.js', 'actions/remove.js', 'queries/list.js', 'migrations/0001_notes.sql'])
      await expectStatus(200, world.gateway.call('DELETE', filePath('fresh', path)));
    await change(world, 'fresh', versionOf('fresh', 3));
  },
  /** Meanwhile others published: one file that it left alone, and one line that it changed too. */
  'git-behind': async (world: World) => {
    await change(world, 'main', edited());
    await world.gateway.install('main', { ...versionOf('main', 3), 'notes.md': 'theirs\n' });
  },
  /** Its draft has been called and written to, and has settings of its own. */
  'git-draft': async (world: World) => {
    await change(world, 'main', edited());
    const body = { app: 'main', action: 'put', input: { key: 'drafted', value: 1 } };
    await expectStatus(201, world.gateway.call('POST', draftTool('svc_write'), { body }));
    const settings = `/svc/_draft/${WORKSPACE}/_apps/main/settings`;
    await expectStatus(200, world.gateway.call('PUT', settings, { body: { theme: 'drafted' } }));
  },
};

export type AuthoringScene = keyof typeof AUTHORING_SCENES;

export function filePath(app: string, path: string): string {
  return `/svc/_sessions/${WORKSPACE}/apps/${app}/files/${path}`;
}

export function draftTool(tool: string): string {
  return `/svc/_draft/${WORKSPACE}/_tool/${tool}`;
}

/** A webhook that is minted when the app is published. */
export function automationFiles(id: string): Record<string, string> {
  const triggers = [{ kind: 'webhook', pending: true, signing: true }];
  return {
    [`automations/${id}/automation.json`]: automation({ triggers }),
    [`automations/${id}/handler.js`]: 'export default () => {};',
  };
}

function edited(): Record<string, string> {
  const manifest = JSON.parse(versionOf('main', 2)['app.json'] as string) as Record<string, unknown>;
  return {
    'app.json': JSON.stringify({ ...manifest, version: '2.5.0' }),
    'queries/which.js': `export default async ({ db }) => ({ version: 2.5, ...(await db.get('SELECT 2 AS extra')) });`,
  };
}

export async function fillWorkspace(world: World, scene: AuthoringScene): Promise<void> {
  await world.start();
  await expectStatus(201, world.gateway.call('POST', '/svc/_sessions', { body: { sessionId: WORKSPACE } }));
  await AUTHORING_SCENES[scene](world);
}

async function change(world: World, app: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const { status, text: said } = await world.gateway.call('PUT', filePath(app, path), { body: Buffer.from(text) });
    if (status !== 200 && status !== 201) throw new Error(`A scene could not be made: ${path}: ${status} ${said}`);
  }
}
