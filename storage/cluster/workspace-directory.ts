/**
 * Keeps which workspaces a cluster has (specification, "Workspaces in the cluster"). What a workspace has of an app, a *part*, is with the
 * node that owns the app: this says which parts there are, by what was stored of their files.
 */
import { isChosenId } from '../../protocol/ids.ts';
import type { Database, Session } from './database.ts';
import { OneQuestion } from './one-question.ts';

/** Times in milliseconds since the epoch. `unfinished`: the request that opened it has not ended. */
export type ListedWorkspace = {
  readonly id: string;
  readonly name: string | null;
  readonly base: string;
  readonly createdAt: number;
  readonly unfinished: boolean;
};

/** `apps` are those that it has parts of, sorted; `touchedAt` is when a file of one was last changed. */
export type WorkspaceWithApps = ListedWorkspace & { readonly apps: string[]; readonly touchedAt: number };

/** The id of the workspace of a subject of files. */
const OF_SUBJECT = `split_part(substr(subject, ${'workspace/'.length + 1}), '~', 1)`;
const PARTS = `subject LIKE 'workspace/%'`;

/** One that is closed stays until no node has a part of it: so what is opened under its id later finds none. */
export const WORKSPACE_TABLES = `
CREATE TABLE IF NOT EXISTS svc.workspaces (
  id text PRIMARY KEY,
  name text,
  base text NOT NULL,
  created_at bigint NOT NULL,
  unfinished boolean NOT NULL,
  closed_at timestamptz
);
CREATE INDEX IF NOT EXISTS parts_of_workspace ON svc.subjects ((${OF_SUBJECT})) WHERE ${PARTS};
CREATE INDEX IF NOT EXISTS files_of_workspace ON svc.entries ((${OF_SUBJECT})) WHERE ${PARTS};`;

/** Of a request that opens a workspace, with all that it does there. */
const UNFINISHED = `interval '15 minutes'`;
/** Until then each node has looked what is closed. */
const CLOSING = `interval '2 seconds'`;
const HAS_PARTS = `EXISTS (SELECT FROM svc.entries WHERE ${PARTS} AND ${OF_SUBJECT} = w.id)`;
/** Those that were closed before, of which no node has a part. */
const forget = (before: string): string => `
  WITH gone AS (
    DELETE FROM svc.workspaces w WHERE closed_at < now() - ${before} AND ($1::text IS NULL OR id = $1) AND NOT ${HAS_PARTS} RETURNING id
  )
  DELETE FROM svc.subjects USING gone WHERE ${PARTS} AND ${OF_SUBJECT} = gone.id`;

/** Those of the gateway that begins the cluster, which has none yet. */
export async function addWorkspaces(
  session: Session,
  workspaces: readonly Omit<ListedWorkspace, 'unfinished'>[],
): Promise<void> {
  await session.rows(
    `INSERT INTO svc.workspaces (id, name, base, created_at, unfinished)
     SELECT id, name, base, created_at, false
     FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS w (id, name, base, created_at)`,
    [
      workspaces.map(({ id }) => id),
      workspaces.map(({ name }) => name),
      workspaces.map(({ base }) => base),
      workspaces.map(({ createdAt }) => createdAt),
    ],
  );
}

/** What no id can be is not asked for: anybody may send it, and PostgreSQL takes no text with a zero byte. */
export class WorkspaceDirectory {
  readonly #database: Database;
  readonly #firstApps = new OneQuestion(async (ids) => {
    const rows = await this.#database.rows<{ id: string; app: string | null }>(
      `SELECT id, (SELECT min(split_part(subject, '~', 2)) FROM svc.entries WHERE ${PARTS} AND ${OF_SUBJECT} = w.id) AS app
       FROM svc.workspaces w WHERE closed_at IS NULL AND id = ANY ($1)`,
      [ids],
    );
    return new Map(rows.flatMap(({ id, app }) => (app === null ? [] : [[id, app] as const])));
  });

  /** All methods reject with `STORAGE_UNAVAILABLE`. */
  constructor(database: Database) {
    this.#database = database;
  }

  /** `taken`: there is an open one. `closing`: nodes still have parts of an earlier one. */
  async add({ id, name, base, createdAt, unfinished }: ListedWorkspace): Promise<'added' | 'taken' | 'closing'> {
    return this.#database.transaction(async (session) => {
      await session.rows(forget(CLOSING), [id]);
      const added = await session.rows(
        `INSERT INTO svc.workspaces (id, name, base, created_at, unfinished) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING RETURNING 1`,
        [id, name, base, createdAt, unfinished],
      );
      if (added.length > 0) return 'added';
      const [there] = await session.rows<{ open: boolean }>(
        'SELECT closed_at IS NULL AS open FROM svc.workspaces WHERE id = $1',
        [id],
      );
      return there?.open === false ? 'closing' : 'taken';
    });
  }

  /** The first app of an open one; null for none. Strangers may ask for any. */
  async firstApp(id: string): Promise<string | null> {
    return isChosenId(id) ? this.#firstApps.about(id) : null;
  }

  /** Null for one that is not open. */
  async find(id: string): Promise<ListedWorkspace | null> {
    if (!isChosenId(id)) return null;
    const [row] = await this.#database.rows<ListedWorkspace>(
      `SELECT ${COLUMNS} FROM svc.workspaces w WHERE id = $1 AND closed_at IS NULL`,
      [id],
    );
    return row ?? null;
  }

  /** The open ones; `id` for one alone. */
  async all(id: string | null = null): Promise<WorkspaceWithApps[]> {
    if (id !== null && !isChosenId(id)) return [];
    return this.#database.rows<WorkspaceWithApps>(
      `SELECT ${COLUMNS}, coalesce(p.apps, '{}') AS apps, coalesce(p.touched, w.created_at)::float8 AS "touchedAt"
       FROM svc.workspaces w LEFT JOIN LATERAL (
         SELECT array_agg(DISTINCT split_part(subject, '~', 2) ORDER BY split_part(subject, '~', 2)) AS apps, max(e.modified) AS touched
         FROM svc.entries e WHERE ${PARTS} AND ${OF_SUBJECT} = w.id
       ) p ON true WHERE closed_at IS NULL AND ($1::text IS NULL OR id = $1)`,
      [id],
    );
  }

  /** False when it is not open. */
  rename(id: string, name: string): Promise<boolean> {
    return this.#update(id, 'name = $2', name);
  }

  /** It stays from now on. False when it is not open. */
  keep(id: string): Promise<boolean> {
    return this.#update(id, 'unfinished = $2', false);
  }

  /** It published this commit last. */
  published(id: string, commit: string): Promise<boolean> {
    return this.#update(id, 'base = $2', commit);
  }

  /** False when it is not open. Nodes take their parts away once they hear of it. */
  async close(id: string): Promise<boolean> {
    return this.#update(id, 'closed_at = now() + make_interval(secs => $2)', 0);
  }

  async hasParts(id: string): Promise<boolean> {
    const [row] = await this.#database.rows<{ has: boolean }>(
      `SELECT ${HAS_PARTS} AS has FROM (SELECT $1 AS id) AS w`,
      [id],
    );
    return row?.has ?? false;
  }

  /** Those that are being closed, with what is unfinished for too long. */
  async closed(): Promise<string[]> {
    const rows = await this.#database.rows<{ id: string; isOld: boolean }>(
      `SELECT id, closed_at < now() - 2 * ${CLOSING} AS "isOld" FROM svc.workspaces WHERE closed_at IS NOT NULL
         OR (unfinished AND created_at < 1000 * extract(epoch FROM now() - ${UNFINISHED}))`,
    );
    for (const { id, isOld } of rows) if (isOld === null) await this.close(id);
    if (rows.some(({ isOld }) => isOld)) await this.#database.rows(forget(`2 * ${CLOSING}`), [null]);
    return rows.map(({ id }) => id);
  }

  async #update(id: string, change: string, value: unknown): Promise<boolean> {
    if (!isChosenId(id)) return false;
    const rows = await this.#database.rows(
      `UPDATE svc.workspaces SET ${change} WHERE id = $1 AND closed_at IS NULL RETURNING 1`,
      [id, value],
    );
    return rows.length > 0;
  }
}

const COLUMNS = 'w.id, w.name, w.base, w.created_at::float8 AS "createdAt", w.unfinished';
