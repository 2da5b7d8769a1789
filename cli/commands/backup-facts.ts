/** What `svc backup` and `svc restore` say of a backup. */
import type { BackupManifest } from '../../protocol/backup.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatBytes, plural } from '../terminal/units.ts';

/** `rows` are those of the apps' and the gateway's own tables; `damaged` are databases that were damaged when the backup was taken. Bytes are those of the files inside. */
export type BackupFacts = {
  takenAt: string;
  svcVersion: string;
  apps: number;
  files: number;
  bytes: number;
  databases: number;
  rows: number;
  damaged: { path: string; integrity: string }[];
};

export function backupFacts({ takenAt, svcVersion, files, databases }: BackupManifest): BackupFacts {
  const apps = new Set(
    files.map(({ path }) => /^apps\/([^/_][^/]*)\//.exec(path)?.[1]).filter((id) => id !== undefined),
  );
  return {
    takenAt,
    svcVersion,
    apps: apps.size,
    files: files.length,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    databases: databases.length,
    rows: databases.flatMap(({ tables }) => tables.filter(isOwn)).reduce((sum, table) => sum + table.rows, 0),
    damaged: databases
      .filter(({ integrity }) => integrity !== 'ok')
      .map(({ path, integrity }) => ({ path, integrity })),
  };
}

export function printFacts(terminal: Terminal, title: string, facts: BackupFacts, archiveBytes: number): void {
  const { style } = terminal;
  terminal.line(`${style('green', '✓')} ${title}`);
  const lines: [name: string, value: string][] = [
    ['taken', facts.takenAt],
    ['holds', `${plural(facts.apps, 'app')}, ${plural(facts.files, 'file')}, ${formatBytes(facts.bytes)}`],
    ['data', `${plural(facts.databases, 'database')}, ${plural(facts.rows, 'row')}, checked by SQLite`],
    ['archive', formatBytes(archiveBytes)],
  ];
  for (const [name, value] of lines) terminal.line(`  ${style('dim', name.padEnd(9))} ${value}`);
  for (const { path, integrity } of facts.damaged)
    terminal.note(`${terminal.noteStyle('yellow', '!')} ${path} was damaged when the backup was taken: ${integrity}`);
}

/** Not one in which SQLite keeps house. */
function isOwn({ name }: { name: string }): boolean {
  return !name.startsWith('sqlite_');
}
