/** A data directory with a thousand apps registered; made once for the scenarios that ask about it. */
import { APP } from '../bench-app.ts';
import { installAll } from '../compare.ts';
import type { Context } from '../context.ts';
import { Daemon } from '../daemon.ts';

const REGISTERED = 1000;
const SMOKE_REGISTERED = 20;
const MORE_ACTORS = 16;

/** `idle`: the thousand. `more`: a few apps besides, and `APP`. */
export type ManyApps = { dataDir: string; idle: string[]; more: string[] };

const made = new WeakMap<Context, Promise<ManyApps>>();

export const MORE_APPS = Array.from({ length: MORE_ACTORS }, (_, i) => `${APP}-live-${i}`);

export function manyApps(context: Context): Promise<ManyApps> {
  const found = made.get(context) ?? make(context);
  made.set(context, found);
  return found;
}

async function make(context: Context): Promise<ManyApps> {
  const count = context.options.smoke ? SMOKE_REGISTERED : REGISTERED;
  const idle = Array.from({ length: count }, (_, i) => `${APP}-idle-${i}`);
  const dataDir = context.newFolder();
  await installInto(context, dataDir, [APP, ...MORE_APPS, ...idle]);
  return { dataDir, idle, more: MORE_APPS };
}

export async function installInto({ config }: Context, dataDir: string, apps: string[]): Promise<void> {
  await Daemon.use({ dataDir, config }, async (daemon) => {
    await installAll(daemon, apps);
  });
}
