/** The loads that are compared with the references: calls that go through the dispatcher to a handler, files, and event streams. */
import { APP, CACHED_APP, LARGE_FILE, ROWS } from '../bench-app.ts';
import { compare, compareBuildsUnder } from '../compare.ts';
import type { Scenario } from '../context.ts';
import type { Operation } from '../notes.ts';
import { plainRequest, type Request, tool, type Workload } from '../workload.ts';

/**
 * Different rows one after the other, so that no cache of a single answer could serve them, and enough that none is written
 * twice in a millisecond: SQLite syncs nothing when a row stays as it is.
 */
const VARIANTS = 100;
const IDS = Array.from({ length: VARIANTS }, (_, i) => 1 + Math.floor((i * ROWS) / VARIANTS));
const NOTE = 'A line of text that is as long as notes often are, give or take.';
const KiB = 1024;

/** The call of a query or an action, and the same work for the references. */
export type Call = { request: Request; operation: Operation; input: object };

export const read = (id: number, app = APP): Call => query('get', 'get', { id }, app);
export const list = (id: number, app = APP): Call =>
  query('list', 'list', { after: Math.min(id, ROWS - 50), limit: 50 }, app);
export const write = (id: number, app = APP): Call => action('put', 'put', note(id), app);
export const writeBatch = (id: number, app = APP): Call => action('put_batch', 'putSeveral', threeNotes(id), app);
const writeTransaction = (id: number): Call => action('put_transaction', 'putSeveral', threeNotes(id), APP);

/** What a webhook sends: an object of 4 to 16 KiB with lists and nested members. */
export const receive = (id: number, app = APP): Call => {
  const lines = Math.round(((4 + (id % 4) * 4) * KiB) / 200);
  const event = {
    type: 'order.updated',
    createdAt: 1_700_000_000_000 + id,
    order: { id, customer: { name: `Customer ${id}`, address: NOTE }, total: id * 1.25, open: id % 2 === 0 },
    lines: Array.from({ length: lines }, (_, i) => ({
      sku: `sku-${id}-${i}`,
      quantity: i % 7,
      price: i / 4,
      note: NOTE,
    })),
  };
  return action('receive', 'receive', { id, event }, app);
};

function query(name: string, operation: Operation, input: object, app: string): Call {
  return { request: tool('svc_read', { app, query: name, input }), operation, input };
}

function action(name: string, operation: Operation, input: object, app: string): Call {
  return { request: tool('svc_write', { app, action: name, input }), operation, input };
}

function note(id: number): object {
  return { id, title: `Note ${id}`, body: NOTE };
}

function threeNotes(id: number): object {
  return { notes: [note(id), note((id % ROWS) + 1), note(((id + 1) % ROWS) + 1)] };
}

/** A workload of calls that are all of one kind. */
export function workloadOf(
  scenario: string,
  question: string,
  durability: Workload['durability'],
  call: (id: number) => Call,
): Workload {
  const calls = IDS.map((id) => call(id));
  return {
    scenario,
    question,
    durability,
    requests: calls.map(({ request }) => request),
    plain: calls.map(({ operation, input }) => plainRequest(operation, input)),
  };
}

/** Reads of the app whose results are kept. */
export function kept(scenario: string, question: string, call: (id: number, app: string) => Call): Workload {
  return { ...workloadOf(scenario, question, null, (id) => call(id, CACHED_APP)), apps: [CACHED_APP] };
}

/** The read of one row as a client of MCP calls it. */
function mcpRead(id: number): Request {
  const params = { name: 'get', arguments: { id } };
  return {
    method: 'POST',
    path: `/svc/${APP}/_mcp`,
    body: { jsonrpc: '2.0', id, method: 'tools/call', params },
    headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
  };
}

/** A file of the app. */
function file(scenario: string, question: string, name: string): Workload {
  return {
    scenario,
    question,
    durability: null,
    requests: [{ method: 'GET', path: `/svc/${APP}/${name}` }],
    plain: [{ method: 'GET', path: `/${APP}/${name}` }],
  };
}

/** One row, which each write of it changes. */
const LIVE: Request = {
  method: 'GET',
  path: `/svc/${CACHED_APP}/_live?query=get&input=${encodeURIComponent('{"id":1}')}`,
};

const describeRequest = tool('svc_describe', { app: APP });

/** With subscribers, a request counts once its answer and every subscriber's event have arrived. */
export const WORKLOADS: Workload[] = [
  workloadOf('read', 'How many reads of one row a second at {n} in flight?', null, read),
  {
    ...workloadOf('mcp', 'How many MCP calls that read one row a second at {n} in flight?', null, read),
    requests: IDS.map(mcpRead),
    beside: { name: 'svc_read', requests: IDS.map((id) => read(id).request) },
  },
  workloadOf('list', 'How many lists of 50 rows a second at {n} in flight?', null, list),
  kept('cached', 'How many kept results of one row a second at {n} in flight?', read),
  kept('cached-list', 'How many kept lists of 50 rows a second at {n} in flight?', list),
  workloadOf('write', 'How many durable single-row writes a second at {n} in flight?', 'full', write),
  workloadOf(
    'write-normal',
    'How many single-row writes a second at {n} in flight, when a power cut may lose the last of them?',
    'normal',
    write,
  ),
  workloadOf('batch', 'How many durable batches of three writes a second at {n} in flight?', 'full', writeBatch),
  workloadOf(
    'transaction',
    'How many durable transactions of three writes a second at {n} in flight?',
    'full',
    writeTransaction,
  ),
  workloadOf('post', 'How many events of 4 to 16 KiB are stored a second at {n} in flight?', 'full', (id) =>
    receive(id),
  ),
  {
    scenario: 'describe',
    question: 'How many descriptions of an app a second at {n} in flight?',
    durability: null,
    requests: [describeRequest],
    plain: [{ ...describeRequest, path: `/${APP}/describe` }],
  },
  file('static', 'How many files of 2 KiB a second at {n} in flight?', 'style.css'),
  file('static-large', 'How many files of 1 MiB a second at {n} in flight?', LARGE_FILE),
  {
    ...workloadOf('sse', 'How soon do 200 subscribers have the event of a write, {n} in flight?', 'full', write),
    subscribers: 200,
    connections: [1, 8],
  },
  {
    ...workloadOf('sse-5000', 'How soon do 5,000 subscribers have the event of a write, {n} in flight?', 'full', write),
    subscribers: 5000,
    connections: [1],
  },
  {
    ...workloadOf(
      'live',
      'How soon do 5,000 who follow a query have its new result after a write, {n} in flight?',
      'full',
      () => write(1, CACHED_APP),
    ),
    live: LIVE,
    apps: [CACHED_APP],
    subscribers: 5000,
    connections: [1],
  },
];

/** A scenario that is one workload, which may be a smaller one in a smoke run. */
export function asScenario(full: Workload, smoke = full): Scenario {
  const { scenario: name, question } = full;
  const workload = (isSmoke: boolean) => (isSmoke ? smoke : full);
  return {
    name,
    question,
    run: (context) => compare(context, workload(context.options.smoke)),
    ab: (context, builds) => compareBuildsUnder(context, workload(context.options.smoke), builds),
  };
}
