/** Unpacks the gateway that the plugin carries, once for each version, into the host's state folder. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export type Program = {
  /** The process of a gateway, and svc's command line. */
  gateway: string;
  cli: string;
};

const FOLDER = 'svc-gateway';
const ARCHIVE = /^gateway-([0-9a-f]{16})\.tgz$/;
const here = dirname(fileURLToPath(import.meta.url));

/** Rejects in words. `tar` is part of every system that the gateway runs on. */
export async function unpacked(stateDir: string): Promise<Program> {
  const archive = readdirSync(here).find((name) => ARCHIVE.test(name));
  const [, digest] = ARCHIVE.exec(archive ?? '') ?? [];
  if (archive === undefined || digest === undefined)
    throw new Error(`The plugin has no gateway in ${here}. Install what "node hosts/openclaw/pack.mjs" has made.`);
  const all = join(stateDir, FOLDER);
  const folder = join(all, digest);
  if (!existsSync(folder)) {
    mkdirSync(all, { recursive: true, mode: 0o700 });
    // Whole or not at all: another start may be at it, or have ended in the middle.
    const making = mkdtempSync(join(all, `${digest}.`));
    try {
      await promisify(execFile)('tar', ['-xzf', join(here, archive), '-C', making]);
      renameSync(making, folder);
    } catch (error) {
      rmSync(making, { recursive: true, force: true });
      if (!existsSync(folder))
        throw new Error(`The gateway could not be unpacked into ${all}: ${(error as Error).message.trim()}`);
    }
  }
  return {
    gateway: join(folder, 'gateway-process.js'),
    cli: join(folder, 'node_modules/svc-gateway/bin/svc.js'),
  };
}

/** Removes other versions than the one that runs: a state folder has one gateway. */
export function removeOthers(stateDir: string, { gateway }: Program): void {
  const all = join(stateDir, FOLDER);
  for (const name of readdirSync(all)) {
    const folder = join(all, name);
    if (folder !== dirname(gateway)) rmSync(folder, { recursive: true, force: true });
  }
}
