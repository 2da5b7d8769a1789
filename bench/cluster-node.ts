/**
 * A node of a cluster of two: an edge, and calls between nodes before a gateway. The one that owns every bucket has a gateway on
 * a data directory; the other sends all requests on to it.
 *
 * Reads a `ClusterNode` as one line of JSON from standard input, prints `{"port"}`, ends when standard input does.
 */

import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { Calls } from '../supervisor/cluster/calls/calls.ts';
import { Owners } from '../supervisor/cluster/calls/owners.ts';
import type { ExchangeHandler } from '../supervisor/edge/edge.ts';
import { type EdgeKind, openEdge } from '../supervisor/edge/open-edge.ts';
import type { GatewayOptions } from '../supervisor/gateway.ts';
import type { buildGateway } from '../supervisor/index.ts';
import type { ClusterNode } from './servers.ts';

const input = createInterface(process.stdin);
const [line] = (await once(input, 'line')) as [string];
const { built, options, edge: kind, owner } = JSON.parse(line) as ClusterNode;

const owners = new Owners(owner === null ? 'owner' : 'other', {
  ownerOf: () => ({ node: 'owner', address: owner ?? '', epoch: 1 }),
  isServed: () => owner === null,
});

const gateway = owner === null ? await started(built, options) : null;
const next: ExchangeHandler =
  gateway?.exchangeHandler ?? ((exchange) => exchange.send(500, {}, 'This node owns nothing.'));
const calls = new Calls({
  owners,
  secret: 'bench',
  places: null,
  store: async () => {},
  next,
  nodes: () => [],
  locate: () => null,
  log: pino({ enabled: false }),
});
const { edge } = openEdge(kind as EdgeKind, { handler: calls.handle, onFault: (error) => console.error(error) });
process.stdout.write(`${JSON.stringify({ port: await edge.listen('127.0.0.1', 0) })}\n`);

const ended = async (): Promise<void> => {
  calls.close();
  await edge.close();
  await gateway?.stop();
  process.exit(0);
};
input.once('close', ended);
process.once('SIGTERM', () => input.close());

async function started(entry: string, given: GatewayOptions) {
  const { buildGateway: build } = (await import(pathToFileURL(entry).href)) as { buildGateway: typeof buildGateway };
  const made = build(given);
  await made.start();
  return made;
}
