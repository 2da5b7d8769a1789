/**
 * Keeps which app has the address of a webhook, so that no two apps of a cluster have the same (specification, "Calls between nodes").
 * Each change says in which epoch its node owns the bucket of the app.
 */
import { bucketOf } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Database } from './database.ts';
import { OneQuestion } from './one-question.ts';

/** `slug` is the end of an address, 24 hex characters. */
export type ListedWebhook = { readonly slug: string; readonly app: string };

/** What an app is about to have is there too, until its change has ended. */
export const WEBHOOK_TABLES = `
CREATE TABLE IF NOT EXISTS svc.webhooks (
  slug text PRIMARY KEY,
  bucket integer NOT NULL,
  app text NOT NULL
);
CREATE INDEX IF NOT EXISTS webhooks_of_bucket ON svc.webhooks (bucket);`;

// A change of the owner waits for the end of the statement, or comes first and the statement then finds another epoch.
const OWNED = 'owned AS (SELECT FROM svc.buckets WHERE bucket = $1 AND epoch = $2 FOR SHARE)';
// Of those that are taken it answers the app, also where that is not committed when this begins. In order: two do not wait for each other.
const CLAIM = `
  WITH ${OWNED}
  INSERT INTO svc.webhooks (slug, bucket, app) SELECT slug, $1, $3 FROM owned, unnest($4::text[]) AS slug ORDER BY slug
  ON CONFLICT (slug) DO UPDATE SET slug = excluded.slug RETURNING slug, app`;
const SETTLE = `
  WITH ${OWNED}, gone AS (
    DELETE FROM svc.webhooks USING owned WHERE bucket = $1 AND app = $3 AND slug <> ALL ($4::text[])
  )
  INSERT INTO svc.webhooks (slug, bucket, app) SELECT slug, $1, $3 FROM owned, unnest($4::text[]) AS slug ORDER BY slug
  ON CONFLICT DO NOTHING`;

export class WebhookDirectory {
  readonly #database: Database;
  readonly #epochOf: (bucket: number) => number | undefined;
  readonly #apps = new OneQuestion(
    async (slugs) => new Map((await this.#of(slugs)).map(({ slug, app }) => [slug, app])),
  );

  /** `epochOf` is the epoch in which this node owns a bucket. All methods reject as `Database.rows` does. */
  constructor(database: Database, epochOf: (bucket: number) => number | undefined) {
    this.#database = database;
    this.#epochOf = epochOf;
  }

  /** The app that has an address; null for none. Strangers may ask for any. */
  appOf(slug: string): Promise<string | null> {
    return this.#apps.about(slug);
  }

  /** Those of the apps in these buckets. */
  in(buckets: readonly number[]): Promise<ListedWebhook[]> {
    return this.#database.rows('SELECT slug, app FROM svc.webhooks WHERE bucket = ANY ($1) ORDER BY slug', [buckets]);
  }

  /** Those of the addresses that another app has. */
  async others(app: string, slugs: readonly string[]): Promise<string[]> {
    return slugsOf(await this.#of(slugs), app);
  }

  /**
   * Claims for the app those that no app has, and answers those that another one has. Rejects with `STORAGE_UNAVAILABLE` where another
   * node has the bucket of the app.
   */
  async claim(app: string, slugs: readonly string[]): Promise<string[]> {
    const rows = await this.#change<ListedWebhook>(CLAIM, app, slugs);
    if (rows.length === 0 && slugs.length > 0)
      throw new SvcError('STORAGE_UNAVAILABLE', `Another node of the cluster has ${app}. Try again.`);
    return slugsOf(rows, app);
  }

  /** From now on the app has these addresses, as far as no other one has them, and no others. Where another node has its bucket nothing changes. */
  async settle(app: string, slugs: readonly string[]): Promise<void> {
    await this.#change(SETTLE, app, slugs);
  }

  async #change<Row>(sql: string, app: string, slugs: readonly string[]): Promise<Row[]> {
    const bucket = bucketOf(app);
    const epoch = this.#epochOf(bucket);
    return epoch === undefined ? [] : this.#database.rows(sql, [bucket, epoch, app, [...new Set(slugs)]]);
  }

  #of(slugs: readonly string[]): Promise<ListedWebhook[]> {
    return this.#database.rows('SELECT slug, app FROM svc.webhooks WHERE slug = ANY ($1)', [slugs]);
  }
}

function slugsOf(found: readonly ListedWebhook[], app: string): string[] {
  return found.flatMap(({ slug, app: holder }) => (holder === app ? [] : slug));
}
