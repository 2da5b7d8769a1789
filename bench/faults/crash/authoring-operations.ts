/** What authors do over HTTP: sessions and their files, new apps, publications, drafts. */
import type { Answer } from '../../../testing/gateway.ts';
import { automationFiles, draftTool, filePath, SESSION } from './authoring-scenes.ts';
import type { Operation } from './scenes.ts';
import { versionOf } from './versions.ts';
import { call, type World } from './world.ts';

const AUTOMATION = JSON.parse(automationFiles('new')['automations/new/automation.json'] as string) as object;
const update = `/svc/_sessions/${SESSION}/apps/main/update`;
const publish = (app: string) => call('POST', `/svc/_sessions/${SESSION}/publish`, { app });
const callDraft = call('POST', draftTool('svc_read'), { app: 'main', query: 'which' });

export const AUTHORING_OPERATIONS: Operation[] = [
  {
    name: 'opening a session',
    scene: 'git-session',
    run: call('POST', '/svc/_sessions', { sessionId: 'other' }),
    again: [409],
  },
  { name: 'closing a session', scene: 'git-draft', run: call('DELETE', `/svc/_sessions/${SESSION}`), again: [404] },
  {
    name: 'writing a file in a session',
    scene: 'git-session',
    run: call('PUT', filePath('main', 'pages/new.html'), Buffer.from('<p>new')),
    again: [200],
  },
  {
    name: 'replacing a file in a session',
    scene: 'git-session',
    run: call('PUT', filePath('main', 'notes.md'), Buffer.from('second')),
    again: [200],
  },
  {
    name: 'writing the first file of an app in a session',
    scene: 'git-session',
    run: call('PUT', filePath('gone', 'notes.md'), Buffer.from('new')),
    again: [200],
  },
  {
    name: 'deleting a file in a session',
    scene: 'git-session',
    run: call('DELETE', filePath('main', 'notes.md')),
    again: [404],
  },
  {
    name: 'making a blank app in a session',
    scene: 'git-session',
    run: call('POST', '/svc/_apps', { id: 'made', sessionId: SESSION }),
    again: [409],
  },
  {
    name: 'making a blank app in a session of its own',
    scene: 'git',
    run: call('POST', '/svc/_apps', { id: 'made' }),
    again: [201],
  },
  {
    name: 'making an app like a template in a session',
    scene: 'git-session',
    run: call('POST', '/svc/_apps/_clone', { templateId: 'feeds', id: 'made', sessionId: SESSION }),
    again: [409],
  },
  {
    name: 'making an automation in a session',
    scene: 'git-session',
    run: call('POST', '/svc/_automations', { app: 'main', id: 'new', manifest: AUTOMATION, sessionId: SESSION }),
    again: [409],
  },
  {
    name: 'changing an automation in a session',
    scene: 'git-session',
    run: call('PATCH', '/svc/_automations/main/plain', {
      manifest: { name: 'Another' },
      handler: 'export default () => ({ summary: "another" });',
      sessionId: SESSION,
    }),
    again: [200],
  },
  {
    name: 'removing an automation in a session',
    scene: 'git-session',
    run: call('DELETE', '/svc/_automations/main/plain', { sessionId: SESSION }),
    again: [404],
  },
  { name: 'updating a session', scene: 'git-behind', run: call('POST', update), again: [200] },
  { name: 'publishing', scene: 'git-edited', run: publish('main'), again: [409] },
  { name: 'publishing with migrations', scene: 'git-session', run: publish('main'), again: [409] },
  { name: 'publishing whose migration fails', scene: 'git-broken', run: publish('main'), again: [] },
  { name: 'first publication of an app', scene: 'git-new', run: publish('fresh'), again: [409] },
  {
    name: 'renaming an app at once',
    scene: 'git',
    run: call('POST', '/svc/_apps/main/meta', { name: 'Another', publish: true }),
    again: [409],
  },
  {
    name: 'making an automation at once',
    scene: 'git',
    run: call('POST', '/svc/_automations', { app: 'main', id: 'new', manifest: AUTOMATION, publish: true }),
    again: [409],
  },
  { name: 'first call of a draft', scene: 'git-session', run: callDraft, again: [200] },
  { name: 'another migration in a draft', scene: 'git-draft', run: migrateDraft, again: [200] },
  {
    name: "resetting a draft's data",
    scene: 'git-draft',
    run: call('POST', `/svc/_sessions/${SESSION}/apps/main/reset-data`),
    again: [200],
  },
];

async function migrateDraft(world: World): Promise<number> {
  const migration = 'migrations/0002_extra.sql';
  const body = Buffer.from(versionOf('main', 3)[migration] as string);
  const written: Answer = await world.gateway.call('PUT', filePath('main', migration), { body });
  return written.status >= 400 ? written.status : callDraft(world);
}
