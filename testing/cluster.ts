/** A node of a cluster for tests, which takes its part of the buckets and serves nothing. */
import { randomUUID } from 'node:crypto';
import { Database } from '../storage/cluster/database.ts';
import { Directory } from '../supervisor/cluster/directory.ts';
import { Membership } from '../supervisor/cluster/membership.ts';

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
