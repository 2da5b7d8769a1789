/** How much of the bare edge's rate is left when a call goes through the dispatcher to a handler, and what it costs. */
import { APP, ROWS } from '../bench-app.ts';
import { compare, type Request } from '../compare.ts';
import type { Scenario } from '../context.ts';

/** Different rows one after the other, so that no cache of a single answer could serve them. */
const VARIANTS = 100;
const NOTE = 'A line of text that is as long as notes often are, give or take.';

function scenario(name: string, summary: string, request: (id: number) => Request): Scenario {
  const requests = Array.from({ length: VARIANTS }, (_, i) => request(1 + Math.floor((i * ROWS) / VARIANTS)));
  return { name, summary, run: (context) => compare(context, { scenario: name, requests }) };
}

function tool(name: string, body: object): Request {
  return { method: 'POST', path: `/svc/_tool/${name}`, body };
}

export const putRequest = (id: number): Request =>
  tool('svc_write', { app: APP, action: 'put', input: { id, title: `Note ${id}`, body: NOTE } });

export const toolScenarios: Scenario[] = [
  scenario('read', 'svc_read of one row', (id) => tool('svc_read', { app: APP, query: 'get', input: { id } })),
  scenario('list', 'svc_read of 50 rows', (id) =>
    tool('svc_read', { app: APP, query: 'list', input: { after: Math.min(id, ROWS - 50), limit: 50 } }),
  ),
  scenario('write', 'svc_write of one row, answered when it is durable', putRequest),
  scenario('describe', 'svc_describe of one app', () => tool('svc_describe', { app: APP })),
];
