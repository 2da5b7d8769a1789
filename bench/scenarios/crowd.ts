/** Makes data directories with many apps: one is uploaded, the others are copies, and the registry is made anew. */
import { cpSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { APP, benchApp } from '../bench-app.ts';
import { type Context, withDaemon } from '../context.ts';

/** `bench-0` and so on. */
export function appIds(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${APP}-${i}`);
}

/** A data directory with these apps, each with the further files. */
export async function crowd(context: Context, apps: string[], files: Record<string, string> = {}): Promise<string> {
  const dataDir = context.newFolder();
  const [first, ...others] = apps as [string, ...string[]];
  await withDaemon(context, async (daemon) => daemon.install(first, benchApp(first, files)), { dataDir });
  await addCopies(context, dataDir, first, others);
  return dataDir;
}

/** Adds apps that are copies of `first` to a data directory that no daemon uses. */
export async function addCopies(context: Context, dataDir: string, first: string, others: string[]): Promise<void> {
  const folder = (app: string): string => join(dataDir, 'apps', app);
  // A fraction of what the same takes with a promise for each file.
  for (const app of others) cpSync(folder(first), folder(app), { recursive: true });
  await rm(join(dataDir, 'apps', '_registry.json'), { force: true });
  // The start that makes the registry is another work than those that are measured.
  await withDaemon(context, async () => {}, { dataDir });
}
