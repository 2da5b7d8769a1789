/** Nodes of a cluster for tests: gateways with data directories of their own, and one that takes its part of the buckets and serves nothing. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Database } from '../storage/cluster/database.ts';
import { Directory } from '../supervisor/cluster/directory.ts';
import { Membership } from '../supervisor/cluster/membership.ts';
import { freePort } from './free-port.ts';
import { type Answer, gatewayIn, type TestGateway } from './gateway.ts';
import { LONG_MS } from './waiting.ts';

/** A gateway that is a node of the cluster of this database, with a data directory in `folder`. It is not started. */
export function nodeIn(folder: string, url: string, node: string): TestGateway {
  const env = { SVC_CLUSTER_SECRET: 'of this test' };
  return gatewayIn(folder, {
    store: 'tarball',
    config: { cluster: { url, node } },
    env,
  });
}

/** A folder that ends with the test. */
export function testFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Nodes of one cluster, by their names, each with a data directory of its own. None is started; all end with the test. */
export function nodesOf(t: TestContext, url: string, names: readonly string[]): TestGateway[] {
  const nodes: TestGateway[] = [];
  // Before the folders are removed: a hook that fails, because a node writes there, keeps those after it from running.
  t.after(() => Promise.all(nodes.map((node) => node.stop())));
  for (const name of names) nodes.push(nodeIn(testFolder(t), url, name));
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

export type OtherNode = {
  readonly membership: Membership;
  /** Takes it out of the directory, as a node does that stops in order. */
  leave(): Promise<void>;
  /** Ends it without a word, and its connections. */
  end(): Promise<void>;
};

/** A node of the cluster of this database. It has not joined: see `Membership.start`. */
export function otherNode(url: string, name: string): OtherNode {
  const database = new Database([url]);
  const directory = new Directory(database);
  const node = { name, instance: randomUUID(), address: 'http://127.0.0.1:1', version: '0.0.1' };
  const log = { info: () => {}, warn: () => {} };
  const membership = new Membership({ directory, node, previous: null, quiesce: async () => {}, log });
  return {
    membership,
    leave: () => directory.leave(node),
    end: async () => {
      await membership.stop();
      await database.close();
    },
  };
}
