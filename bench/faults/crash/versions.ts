/** The versions of the apps in the scenes, and how they get into a gateway. */
import { automation } from '../../../testing/apps.ts';
import type { Answer } from '../../../testing/gateway.ts';
import { ledgerApp } from '../../../testing/write-ledger.ts';

export const SIGNED = 'automations/signed/automation.json';

/** What each version of the ledger adds; the query `which` works on data that suits its version only. */
const LATER_MIGRATIONS = {
  'migrations/0002_extra.sql': 'CREATE TABLE extra (n INTEGER NOT NULL); INSERT INTO extra VALUES (3);',
  'migrations/0003_more.sql': 'ALTER TABLE extra ADD COLUMN m INTEGER;',
};

/** An app of this version; from 3 on with two migrations more, of which the second fails when `broken`. */
export function versionOf(id: string, version: number, broken = false): Record<string, string> {
  const files = ledgerApp(id);
  const manifest = JSON.parse(files['app.json'] as string) as { version: string; queries: { name: string }[] };
  manifest.version = `${version}.0.0`;
  manifest.queries.push({ name: 'which' });
  const rows = version >= 3 ? '(SELECT count(m) + sum(n) FROM extra)' : '2';
  return {
    ...files,
    ...(version >= 3 ? LATER_MIGRATIONS : {}),
    ...(broken ? { 'migrations/0003_more.sql': 'INSERT INTO nowhere VALUES (1);' } : {}),
    'app.json': JSON.stringify(manifest),
    'queries/which.js': `export default async ({ db }) => ({ version: ${version}, ...(await db.get('SELECT ${rows} AS extra')) });`,
  };
}

/** Fires at New Year, and when it is posted to. */
export const hooked = (signing: boolean): string =>
  automation({
    triggers: [
      { kind: 'cron', expr: '0 0 1 1 *' },
      { kind: 'webhook', pending: true, signing },
    ],
  });

/** The same with two automations whose webhooks are to be minted, of which one is signed. */
export function automatedVersionOf(id: string, version: number, broken = false): Record<string, string> {
  return {
    ...versionOf(id, version, broken),
    'automations/plain/automation.json': hooked(false),
    'automations/plain/handler.js': 'export default () => {};',
    [SIGNED]: hooked(true),
    'automations/signed/handler.js': 'export default () => {};',
  };
}

export async function expectStatus(status: number, answer: Promise<Answer>): Promise<Answer> {
  const given = await answer;
  if (given.status !== status) throw new Error(`A scene could not be made: ${given.status} ${given.text}`);
  return given;
}
