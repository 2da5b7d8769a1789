/** Gateways that are the nodes of one cluster, and a client that asks again when it is told to. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { bucketOf } from '../protocol/buckets.ts';
import { freePort } from './free-port.ts';
import { type Answer, gatewayIn, type StoreKind, type TestGateway } from './gateway.ts';
import { OBJECT_STORE_KEYS, type TestObjectStore } from './object-store.ts';
import { LONG_MS } from './waiting.ts';

/** A test, or the hooks of a suite. */
type Ending = { after(end: () => unknown): void };

/**
 * A gateway that is a node of the cluster of this database, with a data directory in `folder`; `objects` has its large files. It is not
 * started.
 */
export function nodeIn(
  folder: string,
  url: string,
  node: string,
  store: StoreKind = 'tarball',
  objects: TestObjectStore | null = null,
): TestGateway {
  const cluster = { url, node };
  return gatewayIn(folder, {
    store,
    config: objects === null ? { cluster } : { cluster, blobs: { s3: objects.config } },
    env: { SVC_CLUSTER_SECRET: 'of this test', ...OBJECT_STORE_KEYS },
  });
}

/** A folder that ends with the test. */
export function testFolder(t: Ending): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Nodes of one cluster, by their names, each with a data directory of its own. None is started; all end with the test. */
export function nodesOf(
  t: Ending,
  url: string,
  names: readonly string[],
  store?: StoreKind,
  objects?: TestObjectStore,
): TestGateway[] {
  const nodes: TestGateway[] = [];
  // Before the folders are removed: a hook that fails, because a node writes there, keeps those after it from running.
  t.after(() => Promise.all(nodes.map((node) => node.stop())));
  for (const name of names) nodes.push(nodeIn(testFolder(t), url, name, store, objects));
  return nodes;
}

/** One after the other; with the port of before where it ran already. */
export async function start(...nodes: TestGateway[]): Promise<void> {
  for (const node of nodes) await node.start(String(node.url === '' ? await freePort() : node.port));
}

/** Buckets may be on their way: asks again as a client does that is told to. */
export async function patiently(ask: () => Promise<Answer>): Promise<Answer> {
  const until = performance.now() + LONG_MS;
  for (;;) {
    const answer = await ask();
    if (answer.status !== 503 || performance.now() > until) return answer;
    assert.equal(answer.headers['retry-after'], '1', answer.text);
    await wait(50);
  }
}

/** A gateway as such a client sees it. */
export function patient(gateway: TestGateway): TestGateway {
  const call: TestGateway['call'] = (...asked) => patiently(() => gateway.call(...asked));
  return Object.create(gateway, { call: { value: call } });
}

/** The id of an app that this node would have now; waits until there is one. */
export async function idAt(url: string, node: string, prefix: string): Promise<string> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    for (let at = 1; ; at++) {
      const id = `${prefix}-${at}`;
      const { rows } = await client.query('SELECT owner FROM svc.buckets WHERE bucket = $1', [bucketOf(id)]);
      if (rows[0]?.owner === node) return id;
    }
  } finally {
    await client.end();
  }
}
