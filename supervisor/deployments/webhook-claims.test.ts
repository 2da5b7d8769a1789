/** Two nodes of a cluster that claim addresses of webhooks; the database is real. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { bucketOf } from '../../protocol/buckets.ts';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { WebhookDirectory } from '../../storage/cluster/webhook-directory.ts';
import { VersionPaths } from '../../storage/layout.ts';
import { automation } from '../../testing/apps.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { WebhookClaims } from './webhook-claims.ts';

const skip = whyNoPostgres() ?? false;
const SLUG = 'ab'.repeat(12);
const TAKEN = { code: 'INVALID_AUTOMATION', path: 'automations/in/automation.json#triggers[0].id' };

test('an address has one app in the cluster, and a claim that was cut off ends with the take-over', {
  skip,
}, async (t) => {
  const db = new Database([await database()]);
  const folder = mkdtempSync(join(tmpdir(), 'svc-claims-'));
  t.after(async () => {
    await db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await prepareTables(db);
  await db.rows(`UPDATE svc.buckets SET owner = 'one', epoch = 3`);
  const version = new VersionPaths(folder, '');
  const file = join(folder, 'automations/in/automation.json');
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, automation({ triggers: [{ kind: 'webhook', id: SLUG, secretHash: 'c'.repeat(64) }] }));

  /** A node that owns every bucket in this epoch; `live` is what its apps have. */
  const node = (epoch: number, live: Record<string, string[]> = {}) => {
    const directory = new WebhookDirectory(db, () => epoch);
    const claims = new WebhookClaims({
      holderOf: (slug) => Object.keys(live).find((app) => live[app]?.includes(slug)),
      of: (app) => [...(live[app] ?? [])],
      shared: {
        claim: (...asked) => directory.claim(...asked),
        others: (...asked) => directory.others(...asked),
        settle: (app, addresses) => directory.settle(app, addresses()),
      },
    });
    const takeOver = async (app: string) => claims.takeOver([app], await directory.in([bucketOf(app)]));
    return { claims, live, takeOver };
  };
  const [one, two] = [node(3), node(3)];
  await two.claims.check('todos', version);
  await one.claims.claim('notes', version);
  for (const refused of ['check', 'claim'] as const) await assert.rejects(two.claims[refused]('todos', version), TAKEN);
  await two.claims.settle('todos');
  // The first one is killed before its version is live. Nobody but the next owner of its bucket can know.
  await db.rows('UPDATE svc.buckets SET epoch = 4');
  const three = node(4);
  await assert.rejects(three.claims.claim('todos', version), TAKEN);
  await three.claims.settle('todos');
  await three.takeOver('notes');
  await three.claims.claim('todos', version);
  three.live.todos = [SLUG];
  await three.claims.settle('todos');
  await assert.rejects(node(4).claims.claim('notes', version), TAKEN);
});
