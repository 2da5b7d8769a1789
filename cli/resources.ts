/** The table of resources: where each list is, what a row is called, and the columns by which commands draw it. */
import type { AutomationRow } from '../protocol/answer-types.ts';
import { actorWords, detailWords } from '../protocol/audit.ts';
import { outcomeOf, type RunRecord } from '../protocol/automations/runs.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { RouteKey, RowIn } from '../protocol/routes/api.ts';
import type { ChannelStatus } from '../protocol/routes/operations/notices-rows.ts';
import type { ConversationRow } from './gateway/conversations.ts';
import { age, count, type Names, name, type Resource, type RowOf, size, type Table, text } from './resource.ts';
import { drawRunState, drawState } from './terminal/states.ts';
import type { Cell } from './terminal/table.ts';
import { formatAge, formatDuration, formatWait } from './terminal/units.ts';

export const INVITE_EXAMPLE = 'svc invite --name Ada --app todos:editor';
export const TOKEN_EXAMPLE = 'svc token create --name zapier --app todos --tools read --expires 90d';
/** How notices come to reach somebody. */
export const NOTICES_HOW =
  'Add "mail" or "notify" to the configuration, or let a browser agree: the console, System, Notices.';
/** Characters of a SHA-256 that are shown: enough to tell the files of an app apart. */
export const SHOWN_SHA = 16;

type Named<Key extends RouteKey, Member extends string = never> = Resource<Key, Member> & Names<RowOf<Key, Member>>;
type Drawn<Key extends RouteKey, Member extends string = never> = Resource<Key, Member> & Table<RowOf<Key, Member>>;
/** Commands list its rows, and name one. */
type Listed<Key extends RouteKey, Member extends string = never> = Named<Key, Member> & Drawn<Key, Member>;

const limit = LIMITS.listRowsMax;

export const APPS: Listed<'GET /svc/_apps'> = {
  key: 'GET /svc/_apps',
  page: (last) => ({ after: last?.id }),
  named: (app) => [app.id, app.name],
  none: () => 'No app is registered yet. Make one: svc new notes && svc push notes',
  columns: [
    name('APP', ({ id }) => id, { squeeze: true }),
    text('NAME', (app) => app.name, { squeeze: true, drop: 1 }),
    text('STATE', ({ status }) => drawState(status)),
    text('VERSION', ({ version }) => version, { drop: 2 }),
    count('TOOLS', ({ queries, actions }) => queries + actions, { drop: 4 }),
    age('UPDATED', ({ updatedAt }) => updatedAt, { drop: 3 }),
  ],
};

/** Of an app, the newest first. */
export const VERSIONS: Listed<'GET /svc/_apps/:id/versions'> = {
  key: 'GET /svc/_apps/:id/versions',
  params: (id = '') => ({ id }),
  limit: LIMITS.listRows,
  named: ({ versionId, active }) => [versionId, active ? 'live' : ''],
  none: () => 'No version is stored.',
  columns: [
    text('VERSION', ({ versionId, active }) => ({ text: versionId, format: active ? 'bold' : 'reset' })),
    text('', ({ active }) => (active ? { text: '● live', format: 'green' } : '')),
    text('APP VERSION', ({ version }) => version, { drop: 1 }),
    age('UPLOADED', ({ uploadedAt }) => uploadedAt),
    count('FILES', ({ files }) => files, { drop: 3 }),
    size('SIZE', ({ bytes }) => bytes, { drop: 2 }),
    text('BY', ({ by }) => by ?? '', { drop: 2, ifAny: true }),
    text('MESSAGE', ({ message }) => message?.split('\n', 1)[0] ?? '', { squeeze: true, ifAny: true }),
  ],
};

/** Of a version of an app. */
export const VERSION_FILES: Listed<'GET /svc/_apps/:id/versions/:versionId/files'> = {
  key: 'GET /svc/_apps/:id/versions/:versionId/files',
  params: (id = '', versionId = '') => ({ id, versionId }),
  named: ({ path }) => [path, ''],
  none: () => 'It has no files.',
  columns: [text('FILE', ({ path }) => path), size('SIZE', (file) => file.size)],
};

/** Removed apps that are kept, the last one first. */
export const TRASH: Listed<'GET /svc/_trash'> = {
  key: 'GET /svc/_trash',
  page: (last) => ({ limit, before: last?.id }),
  named: (row) => [row.app, row.name],
  none: () => 'The trash is empty. "svc rm <app>" moves an app there.',
  columns: [
    name('APP', ({ app }) => app),
    text('NAME', (row) => row.name, { squeeze: true, drop: 3 }),
    text('VERSION', ({ version }) => version, { drop: 4 }),
    age('REMOVED', ({ removedAt }) => removedAt),
    size('SIZE', ({ bytes }) => bytes),
    text('EXPIRES', ({ keptUntil }, now) => formatWait(keptUntil, now), { drop: 1 }),
    text('ID', ({ id }) => ({ text: id, format: 'dim' }), { drop: 2 }),
  ],
};

/** Open ones, the newest first. */
export const WORKSPACES: Listed<'GET /svc/_sessions'> = {
  key: 'GET /svc/_sessions',
  page: (last) => ({ limit, before: last?.sessionId }),
  named: ({ sessionId, name: called, apps }) => [
    sessionId,
    [...(called === sessionId ? [] : [called]), ...apps].join(', '),
  ],
  none: () => 'No open workspaces. Open one: svc dev <dir>, or svc workspaces open',
  columns: [
    name('WORKSPACE', ({ sessionId }) => sessionId),
    text('NAME', (row) => (row.name === undefined || row.name === row.sessionId ? '–' : row.name), {
      squeeze: true,
      drop: 2,
    }),
    text('APPS', ({ apps, damaged }) => `${apps.join(', ') || '–'}${damaged === undefined ? '' : ' (damaged)'}`, {
      squeeze: true,
    }),
    age('LAST EDIT', ({ touchedAt }) => touchedAt, {
      drop: 1,
      format: (ms) => (ms > LIMITS.workspaceStaleMs ? 'yellow' : 'dim'),
    }),
  ],
};

/** Of the cluster, in the order of names. */
export const NODES: Listed<'GET /svc/_cluster', 'nodes'> = {
  key: 'GET /svc/_cluster',
  member: 'nodes',
  named: ({ name: called, address }) => [called, address],
  none: () =>
    'This gateway is in no cluster. Make it a node of one: svc serve --cluster <postgres-url> (docs/cluster.md)',
  columns: [
    name('NODE', (node) => node.name, { squeeze: true }),
    text('', ({ self }) => (self ? { text: 'this one', format: 'dim' } : ''), { drop: 3, ifAny: true }),
    text('STATE', ({ state }) => drawState(state)),
    count('BUCKETS', ({ buckets }) => buckets),
    age('STARTED', ({ started }) => started, { drop: 2 }),
    text('VERSION', ({ version }) => version, { drop: 1 }),
    text('ADDRESS', ({ address }) => address, { drop: 4 }),
  ],
};

export const AUTOMATIONS: Listed<'GET /svc/_automations', 'rows'> = {
  key: 'GET /svc/_automations',
  page: (last) => ({ after: last?.ref }),
  member: 'rows',
  named: (row) => [row.ref, row.name],
  none: () => 'No automations yet. They live in automations/<name>/ of an app: see docs/automations.md.',
  columns: [
    name('AUTOMATION', ({ ref }) => ref, { squeeze: true }),
    text('NAME', (row) => row.name, { squeeze: true, drop: 4 }),
    text('STATE', ({ enabled }) => (enabled ? { text: '● on', format: 'green' } : { text: '○ off', format: 'yellow' })),
    text('FIRES', ({ triggers }) => triggers.map(drawTrigger).join(', ') || 'by hand', { squeeze: true, drop: 2 }),
    text('NEXT', ({ nextRunAt }, now) => (nextRunAt ? formatWait(nextRunAt, now) : ''), { drop: 1 }),
    text(
      'LAST RUN',
      ({ lastRun }, now) =>
        lastRun === undefined
          ? { text: 'never', format: 'dim' }
          : drawRunState(lastRun.state, formatAge(lastRun.startedAt ?? lastRun.queuedAt, now)),
      { drop: 3 },
    ),
  ],
};

/** The latest first. */
export const RUNS: Drawn<'GET /svc/_runs'> = {
  key: 'GET /svc/_runs',
  limit: 20,
  none: () => 'No run is recorded. Fire one: svc run <app>/<automation>',
  columns: [
    text('STATE', ({ state }) => drawRunState(state)),
    name('AUTOMATION', ({ ref }) => ref, { squeeze: true }),
    text('FIRED BY', ({ trigger }) => trigger.kind, { drop: 5 }),
    text('PERSON', ({ by }) => by?.name ?? '', { drop: 5, ifAny: true }),
    age('WHEN', ({ startedAt, queuedAt }) => startedAt ?? queuedAt, { drop: 1 }),
    { title: 'TOOK', align: 'right', drop: 4, cell: (run, now) => runTime(run, now) },
    text('RUN', ({ runId }) => ({ text: runId, format: 'dim' }), { drop: 2 }),
    text('OUTCOME', (run) => outcomeOf(run), { squeeze: true, drop: 3 }),
  ],
};

/** The newest first. */
export const AUDIT: Drawn<'GET /svc/_audit'> = {
  key: 'GET /svc/_audit',
  limit: LIMITS.listRows,
  none: () => 'The audit log has no entry yet.',
  columns: [
    age('WHEN', ({ at }) => at),
    text('WHO', ({ actor }) => actorWords(actor), { squeeze: true }),
    text('WHAT', ({ action }) => action),
    text('TARGET', ({ target }) => target ?? '', { squeeze: true }),
    text('DETAIL', ({ detail }) => ({ text: detailWords(detail), format: 'dim' }), { squeeze: true, drop: 1 }),
  ],
};

/** Those of programs, the newest first. A command line calls one by its name, or by its id. */
export const TOKENS: Listed<'GET /svc/_tokens'> = {
  key: 'GET /svc/_tokens',
  page: (last) => ({ limit, before: last?.id }),
  named: (token) => [token.name, token.tools],
  none: () => `There are no tokens for programs. Make one: ${TOKEN_EXAMPLE}`,
  columns: [
    text('TOKEN', ({ id }) => id),
    name('NAME', (token) => token.name, { squeeze: true }),
    text('APPS', appsOfToken, { squeeze: true, drop: 2 }),
    text('TOOLS', ({ tools }) => tools, { drop: 4 }),
    text(
      'EXPIRES',
      ({ expiresAt }, now) => {
        if (expiresAt === null) return 'never';
        return expiresAt <= now ? { text: 'expired', format: 'red' } : formatWait(expiresAt, now);
      },
      { drop: 1 },
    ),
    age('LAST USE', ({ lastUsedAt }) => lastUsedAt, { drop: 3, never: 'never' }),
  ],
};

/** A command line calls a person by name, by e-mail address, or by id. */
export const PEOPLE: Listed<'GET /svc/_people'> = {
  key: 'GET /svc/_people',
  page: (last) => ({ after: last?.id }),
  named: (person) => [person.name, person.email ?? person.id],
  none: () => `There are no people yet. Invite somebody: ${INVITE_EXAMPLE}`,
  columns: [
    text('PERSON', ({ id }) => id, { drop: 4 }),
    name('NAME', (person) => person.name, { squeeze: true }),
    text('EMAIL', ({ email }) => email ?? '', { squeeze: true, drop: 2 }),
    text('ROLE', ({ role }) => role),
    text('', ({ disabled }) => (disabled ? { text: 'disabled', format: 'red' } : ''), { ifAny: true }),
    age('SEEN', ({ lastSeenAt }) => lastSeenAt, { drop: 3, never: 'never' }),
  ],
};

/** Of a person, the last used first. */
export const PERSON_SESSIONS: Drawn<'GET /svc/_people/:pid/sessions'> = {
  key: 'GET /svc/_people/:pid/sessions',
  params: (pid = '') => ({ pid }),
  none: () => 'They are signed in nowhere.',
  columns: [
    text('SESSION', ({ id }) => id),
    text('BROWSER', ({ device }) => device, { squeeze: true, drop: 1 }),
    text('ADDRESS', ({ address }) => address, { drop: 2 }),
    age('USED', ({ lastUsedAt }) => lastUsedAt),
  ],
};

/** Of a person, or of `me`. */
export const CONNECTIONS: Listed<'GET /svc/_people/:pid/connections'> = {
  key: 'GET /svc/_people/:pid/connections',
  params: (pid = 'me') => ({ pid }),
  named: (one) => [one.id, one.name],
  none: () => 'No program is connected.',
  columns: [
    text('CONNECTION', ({ id }) => id),
    name('PROGRAM', (one) => one.name, { squeeze: true }),
    text('APP', ({ app, workspace }) => (app === null ? 'all' : workspace === null ? app.id : `${app.id} (draft)`)),
    text('ROLE', ({ role, roleName }) => roleName ?? role),
    age('USED', ({ lastUsedAt }) => lastUsedAt, { drop: 1 }),
    text('EXPIRES', ({ expiresAt }, now) => formatWait(expiresAt, now), { drop: 2 }),
  ],
};

export const INVITATIONS: Listed<'GET /svc/_invitations'> = {
  key: 'GET /svc/_invitations',
  named: (one) => [one.id, one.name ?? one.email ?? ''],
  none: () => `No invitation waits. Make one: ${INVITE_EXAMPLE}`,
  columns: [
    text('INVITATION', ({ id }) => id),
    name('FOR', (one) => one.name ?? one.email ?? '', { squeeze: true }),
    text('ROLE', ({ role, person }) => (person === null ? role : 'sign-in link')),
    text('APPS', ({ grants }) => grants.map(({ app, role }) => `${app}:${role}`).join(' '), { squeeze: true, drop: 2 }),
    count('USES', ({ uses }) => uses, { drop: 3 }),
    text('EXPIRES', ({ expiresAt }, now) => formatWait(expiresAt, now), { drop: 1 }),
  ],
};

/** A command line calls a group by its name, or by its id. */
export const PEOPLE_GROUPS: Listed<'GET /svc/_groups'> = {
  key: 'GET /svc/_groups',
  named: (group) => [group.name, `${group.members.length} people`],
  none: () => 'There are no groups. Make one: svc groups new family',
  columns: [
    text('GROUP', ({ id }) => id, { drop: 1 }),
    name('NAME', (group) => group.name, { squeeze: true }),
    count('PEOPLE', ({ members }) => members.length),
  ],
};

/** Of an app: who has it. */
export const SHARES: Listed<'GET /svc/_apps/:id/shares'> = {
  key: 'GET /svc/_apps/:id/shares',
  params: (id = '') => ({ id }),
  // Links have the same name.
  named: (share) => (share.with === 'link' ? [share.id, `link as ${share.role}`] : [share.name, share.role]),
  none: (app) => `"${app}" is shared with nobody. Share it: svc share ${app} ada@example.org`,
  columns: [
    text('SHARE', ({ id }) => id, { drop: 3 }),
    name('WITH', (share) => share.name, { squeeze: true }),
    text('', (share) => (share.with === 'person' ? '' : { text: share.with, format: 'dim' }), { ifAny: true }),
    text('ROLE', ({ role }) => role),
    text('ENDS', ({ expiresAt }, now) => (expiresAt === null ? 'never' : formatWait(expiresAt, now)), { drop: 1 }),
    age('OPENED', ({ openedAt }) => openedAt ?? null, { drop: 2, ifAny: true }),
    text('BY', ({ by }) => by ?? '', { drop: 2, ifAny: true }),
  ],
};

/** Of an app, or of its draft in a workspace. */
export const SECRETS: Drawn<'GET /svc/_apps/:id/secrets'> = {
  key: 'GET /svc/_apps/:id/secrets',
  params: (id = '', sid) => ({ id, sid }),
  none: (app) => `There are no secrets. Set one: svc secret set ${app} <name>`,
  columns: [
    name('SECRET', (secret) => secret.name),
    text('STATE', ({ state }) => ({ text: SECRET_STATES[state], format: state === 'set' ? 'green' : 'yellow' })),
    age('SET', ({ updatedAt }) => updatedAt, { never: '–' }),
  ],
};

const SECRET_STATES: Record<RowIn<'GET /svc/_apps/:id/secrets'>['state'], string> = {
  set: 'set',
  unreadable: 'unreadable: set it again',
  missing: 'no value in the draft',
};

/** That an app keeps, the newest first. */
export const FILES: Listed<'GET /svc/:id/_blobs', 'files'> = {
  key: 'GET /svc/:id/_blobs',
  params: (id = '') => ({ id }),
  limit: LIMITS.listRows,
  member: 'files',
  named: ({ sha256, type }) => [sha256, type],
  none: (app) => `The app keeps no files. Upload one: svc files put ${app} <file>`,
  columns: [
    name('SHA-256', ({ sha256 }) => sha256.slice(0, SHOWN_SHA)),
    text('TYPE', ({ type }) => type, { squeeze: true, drop: 1 }),
    size('SIZE', (file) => file.size),
    age('STORED', ({ storedAt }) => storedAt),
  ],
};

/** About an app. They are read by `allConversations`, from two lists. */
export const CONVERSATIONS: Names<ConversationRow> & Table<ConversationRow> = {
  named: ({ id, title }) => [id, title ?? ''],
  none: (app) => `There are no conversations. Begin one: svc chat ${app}`,
  columns: [
    name('WINDOW', ({ id }) => id),
    text('BEGINS', ({ title }) => title ?? '', { squeeze: true }),
    text('PERSON', ({ by }) => by?.name ?? '', { drop: 3, ifAny: true }),
    text('MODE', ({ mode }) => mode, { drop: 2 }),
    count('TURNS', ({ turns }) => turns, { drop: 1 }),
    age('USED', ({ updatedAt }) => updatedAt),
  ],
};

/** That the gateway keeps in its folder. */
export const BACKUPS: Drawn<'GET /svc/_backups/files'> = {
  key: 'GET /svc/_backups/files',
  none: () => 'The gateway keeps no backups. Make one: svc backup now',
  columns: [
    name('FILE', (file) => file.name, { squeeze: true }),
    age('MADE', ({ madeAt }) => madeAt),
    size('SIZE', ({ bytes }) => bytes),
    text(
      'STATE',
      ({ damaged }) =>
        damaged ? { text: 'a database is damaged', format: 'red' } : { text: 'verified', format: 'green' },
      { drop: 1 },
    ),
  ],
};

/** By which notices reach people. */
export const CHANNELS: Drawn<'GET /svc/_notices', 'channels'> = {
  key: 'GET /svc/_notices',
  member: 'channels',
  none: () => `Notices reach nobody. ${NOTICES_HOW}`,
  columns: [
    name('CHANNEL', nameOfChannel),
    text('STATE', ({ state }) => CHANNEL_STATES[state]),
    age('LAST SENT', ({ lastSentAt }) => lastSentAt, { drop: 3 }),
    count('WAITING', ({ waiting }) => waiting, { drop: 2 }),
    text('LAST FAILURE', (status, now) => ({ text: failureOf(status, now), format: 'dim' }), {
      squeeze: true,
      drop: 1,
    }),
  ],
};

const CHANNEL_STATES: Record<ChannelStatus['state'], Cell> = {
  idle: { text: 'nothing sent yet', format: 'dim' },
  ok: { text: '● works', format: 'green' },
  failing: { text: '● fails', format: 'red' },
};

/** Settings of an app's page, or of its draft's in a workspace. */
export const SETTINGS: Named<'GET /svc/_apps/:id/settings', 'knobs'> = {
  key: 'GET /svc/_apps/:id/settings',
  params: (id = '', sid) => ({ id, sid }),
  member: 'knobs',
  named: ({ key, label }) => [key, label],
};

export const TEMPLATES: Named<'GET /svc/_templates'> = {
  key: 'GET /svc/_templates',
  named: (template) => [template.id, template.name],
};

function drawTrigger(trigger: AutomationRow['triggers'][number]): string {
  if (trigger.kind === 'cron') return trigger.tz ? `${trigger.expr} ${trigger.tz}` : trigger.expr;
  return 'pending' in trigger ? 'webhook (pending)' : `webhook ${trigger.id.slice(0, 6)}…`;
}

/** How long it ran, or has been running. */
export function runTime({ startedAt, endedAt }: RunRecord, now: number): string {
  return startedAt === null ? '' : formatDuration((endedAt ?? now) - startedAt);
}

export function appsOfToken({ apps }: { apps: string[] | null }): string {
  return apps === null ? 'every app' : apps.join(', ');
}

/** A browser is known by its name. */
export function nameOfChannel({ channel, browser }: ChannelStatus): string {
  return browser === undefined ? channel : `${channel} (${browser.name})`;
}

export function failureOf({ lastFailure }: ChannelStatus, now: number): string {
  return lastFailure === null ? '' : `${formatAge(lastFailure.at, now)}: ${lastFailure.message}`;
}

/** A workspace as people read it: its id, and its name if it has another. */
export function shownWorkspace({ sessionId, name: called }: { sessionId: string; name?: string }): string {
  return called === undefined || called === sessionId ? sessionId : `${sessionId} (${called})`;
}
