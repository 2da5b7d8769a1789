/** A small data directory for tests, made without a gateway, and backups of it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeBackup } from '../storage/backup/make-backup.ts';
import { BackupWorkspace, packPart } from '../storage/backup/pack.ts';
import { Layout } from '../storage/layout.ts';
import { openSqlite } from '../storage/sqlite.ts';

export const VERSION_ID = 'v_20260102T030405678Z_abcdef';

export type Fixture = { folder: string; layout: Layout; file: string; take(check?: () => void): Promise<string> };

/** `file` is where `take` puts the backup. */
export function makeFixture(t: { after(cleanup: () => void): void }): Fixture {
  const folder = mkdtempSync(join(tmpdir(), 'svc-backup-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const layout = new Layout(join(folder, 'data'));
  const app = layout.app('notes');
  const version = app.version(VERSION_ID);
  put(app.current, `{"activeVersion":"${VERSION_ID}"}\n`);
  put(version.manifest, '{"id":"notes"}');
  put(join(version.code, 'queries', `${'long-'.repeat(40)}é name.js`), 'export default 1;');
  put(join(version.code, 'empty.txt'), '');
  put(version.summary, '{}');
  put(join(version.automationsDir, 'digest', 'automation.json'), '{}');
  put(version.automations, '{"digest":{"enabled":true}}');
  put(app.settings, '{}');
  put(app.webhookKeys, '{"0123456789abcdef01234567":"whsec_c2VjcmV0"}');
  put(layout.profile, '{}');
  put(join(app.chatDir, 'ww1.jsonl'), '{}\n');
  put(join(app.attachmentsDir, 'a'.repeat(64)), 'an image');
  put(join(app.blobsDir, 'b'.repeat(64)), 'a photo');
  put(join(app.blobsDir, `${'b'.repeat(64)}.type`), 'image/jpeg');
  put(app.logs, 'not in a backup');
  const db = openSqlite(app.data);
  db.pragma('journal_mode = WAL');
  db.exec('CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE "odd ""name" (a)');
  const insert = db.prepare('INSERT INTO notes (text) VALUES (?)');
  for (let n = 0; n < 500; n++) insert.run(`note ${n} ${Math.imul(n, 2_654_435_761)}`);
  db.pragma('user_version = 3');
  db.close();
  const work = join(folder, 'work');
  return {
    folder,
    layout,
    file: new BackupWorkspace(work).archive,
    take: async (check = () => {}) => {
      rmSync(work, { recursive: true, force: true });
      mkdirSync(work);
      const workspace = new BackupWorkspace(work);
      await makeBackup({
        layout,
        config: '{}\n',
        svcVersion: '0.1.0',
        dataFormat: 1,
        takenAt: 1_767_323_045_678,
        apps: ['notes', 'gone'],
        hold: async (id, pack) => {
          if (id === 'gone') return null;
          await pack();
          return 1_767_323_045_000;
        },
        pack: (part) => packPart(workspace, part, check),
      });
      return workspace.archive;
    },
  };
}

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
