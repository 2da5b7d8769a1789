/** Says what the users of the gateway's identity database have of it, on one machine and at each node of a cluster. */
import type { Logger } from 'pino';
import type { DbClient } from '../../protocol/wire/db-client.ts';

/** What is asked of the database. */
export type IdentityClient = Pick<DbClient, 'run' | 'get' | 'all' | 'batch' | 'exec'>;

/** The database, and its file: without the file nothing is stored. `nodes` are those that share it. */
export type IdentityDb = { db: IdentityClient; file: string; log: Logger; nodes?: IdentityNodes | undefined };

/** Rows of the database that each node keeps in memory. */
export type KeptRows = {
  /** The same at all nodes. */
  readonly name: string;
  /** Reads them again. Resolves to whether something that somebody was given may have ended. */
  reload(): Promise<boolean>;
  /** Takes what another node told of its changes, and answers as `reload` does. Without it they are read again. */
  take?(told: readonly unknown[]): boolean;
  /** Runs when `current` has changed. */
  turned?(): void;
};

/** What the nodes of a cluster do about the database, which one of them owns at a time (specification, "People in the cluster"). */
export type IdentityNodes = {
  /** False: others may have changed what this node keeps, and it cannot know. Then nobody is who they were. */
  readonly current: boolean;
  /** Resolves when all that is kept was read, and rejects where that will not be. */
  readonly ready: Promise<void>;
  /**
   * Names a piece of work, which runs where the database is, and waits for that while it moves. It may run twice: it must do no harm
   * then. Given and answer are JSON.
   */
  atOwner<G, T>(name: string, work: (given: G) => Promise<T>): (given: G) => Promise<T>;
  /** Follows the changes of other nodes. What it answers tells them of a change here, for `take` where there is one. */
  keeps(rows: KeptRows): (told?: readonly unknown[]) => void;
  /** Has `call` run when another node ended something that somebody was given. */
  onEnded(call: () => void): void;
};

/** Without a cluster. */
export const ALONE: IdentityNodes = {
  current: true,
  ready: Promise.resolve(),
  atOwner: (_name, work) => work,
  keeps: () => () => {},
  onEnded: () => {},
};
