/** Helpers of end-to-end tests for automations: push, fire, post, and wait for the runs. */
import assert from 'node:assert/strict';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import type { RunEvent, RunNode, RunRecord } from '../protocol/automations/runs.ts';
import { type AppSource, appOf } from './apps.ts';
import { eventually } from './edges.ts';
import type { Answer, CallOptions, Stream, TestGateway } from './gateway.ts';
import { childrenOf } from './processes.ts';

/** A table of events in the order of their ids, which handlers write through `ctx.tool`. */
export const NOTES: Pick<AppSource, 'migrations' | 'queries' | 'actions'> = {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)'],
  queries: { list: "async ({ db }) => (await db.all('SELECT text FROM notes ORDER BY id')).map(({ text }) => text)" },
  actions: {
    add: {
      run: "async ({ db, input }) => { await db.run('INSERT INTO notes (text) VALUES (?)', input.text); return { status: 201, body: input.text }; }",
      writes: ['notes'],
    },
  },
};

/** The source of a call that writes a note; `text` is an expression. */
export function note(app: string, text: string): string {
  return `await ctx.tool('svc_write', { app: '${app}', action: 'add', input: { text: ${text} } });`;
}

export async function notesOf(gateway: TestGateway, app: string): Promise<string[]> {
  return (await gateway.read(app, 'list')).json.data as string[];
}

/** Uploads an app and returns the new webhooks. */
export async function push(gateway: TestGateway, id: string, source: AppSource): Promise<MintedWebhook[]> {
  const answer = await gateway.upload(id, appOf(id, source));
  assert.ok(answer.status === 200 || answer.status === 201, answer.text);
  return answer.json.webhooks as MintedWebhook[];
}

/** The only webhook of these. */
export function only(minted: MintedWebhook[]): MintedWebhook {
  assert.equal(minted.length, 1, JSON.stringify(minted));
  return minted[0] as MintedWebhook;
}

/** Posts to a webhook's address, with its secret unless the headers say otherwise. */
export function post(
  gateway: TestGateway,
  { webhookId, secret }: MintedWebhook,
  body?: unknown,
  { query = '', ...options }: CallOptions & { query?: string } = {},
): Promise<Answer> {
  return gateway.call('POST', `/_svc-hook/${webhookId}${query}`, { token: secret, body, ...options });
}

/** Fires by hand; the run's id. */
export async function fire(gateway: TestGateway, ref: string, input?: unknown): Promise<string> {
  const answer = await gateway.call('POST', `/svc/_automations/${ref}/run`, { body: { input } });
  assert.equal(answer.status, 202, answer.text);
  return answer.json.runId as string;
}

export async function runOf(gateway: TestGateway, runId: string): Promise<RunRecord> {
  const answer = await gateway.call('GET', `/svc/_runs/${runId}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json as RunRecord;
}

export async function nodesOf(gateway: TestGateway, runId: string): Promise<RunNode[]> {
  return (await gateway.call('GET', `/svc/_runs/${runId}/nodes`)).json as RunNode[];
}

/** The newest first. `query` has further filters. */
export async function runsOf(gateway: TestGateway, ref: string, query = ''): Promise<RunRecord[]> {
  const answer = await gateway.call('GET', `/svc/_runs?ref=${ref}${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json as RunRecord[];
}

/** An automation as its own address shows it. */
// biome-ignore lint/suspicious/noExplicitAny: the tests look into it
export async function automationRow(gateway: TestGateway, ref: string): Promise<any> {
  const answer = await gateway.call('GET', `/svc/_automations/${ref}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

/** Every event of a run, after it has ended. */
export async function eventsOf(gateway: TestGateway, runId: string): Promise<RunEvent[]> {
  const stream = await gateway.stream(`/svc/_runs/${runId}/events`);
  const events: RunEvent[] = [];
  do events.push(await nextEvent(stream));
  while (events.at(-1)?.type !== 'run.end');
  await stream.ended();
  return events;
}

/** The stored record, after the run has ended. */
export async function ended(gateway: TestGateway, runId: string): Promise<RunRecord> {
  await eventsOf(gateway, runId);
  return await runOf(gateway, runId);
}

/** Fires by hand and waits for the end. */
export async function runToEnd(gateway: TestGateway, ref: string, input?: unknown): Promise<RunRecord> {
  return await ended(gateway, await fire(gateway, ref, input));
}

export async function nextEvent(stream: Stream): Promise<RunEvent> {
  const event = await stream.next();
  const { type, ...members } = JSON.parse(event.data) as RunEvent;
  assert.equal(type, event.event);
  return { type, ...members } as RunEvent;
}

/** Reads until an event matches, and returns it. */
export async function untilEvent(stream: Stream, fits: (event: RunEvent) => boolean): Promise<RunEvent> {
  for (;;) {
    const event = await nextEvent(stream);
    if (fits(event)) return event;
  }
}

/** Waits until a handler has written this note. */
export async function noted(gateway: TestGateway, app: string, text: string): Promise<void> {
  await eventually(async () => (await notesOf(gateway, app)).includes(text));
}

export function isEnded({ endedAt }: RunRecord): boolean {
  return endedAt !== null;
}

/** The source of a handler that hangs after its note, unless its input says otherwise. */
export function hanging(app: string): string {
  return `async ({ ctx, input }) => { ${note(app, '"began " + input')} if (input !== 'end') await new Promise(() => {}); }`;
}

/** Kills the daemon and all its processes at the same time. */
export async function killAll(gateway: TestGateway): Promise<void> {
  const family = childrenOf(gateway.pid);
  const gone = gateway.kill();
  for (const { pid } of family) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It was faster.
    }
  }
  await gone;
}
