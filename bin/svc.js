#!/usr/bin/env node
// Runs on any Node, so that it can say what is missing, before the code is read that needs it.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const GiB = 1024 * 1024 * 1024;
/** What a gateway needs at least: with fewer files it takes no connection, with less address space its processes do not start. */
const NEEDS = [
  {
    limit: 'Max open files',
    least: 512,
    say: (files) => `a gateway opens at least 512 files, and may open ${files} here`,
    raise: 'ulimit -n 4096 (in a service: LimitNOFILE=4096)',
  },
  {
    limit: 'Max address space',
    least: 4 * GiB,
    say: (bytes) =>
      `a gateway reserves at least 4 GiB of address space, and may have ${(bytes / GiB).toFixed(1)} GiB here`,
    raise: 'ulimit -v unlimited (in a service: LimitAS=infinity)',
  },
];

/** The first of the system's limits that is too low for a gateway, as a sentence; undefined where none is, or none is told. */
function lowLimit() {
  let limits = '';
  try {
    limits = readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return undefined;
  }
  for (const { limit, least, say, raise } of NEEDS) {
    const found = new RegExp(`^${limit} +(\\d+)`, 'm').exec(limits);
    if (found !== null && Number(found[1]) < least) return `svc cannot serve: ${say(found[1])}. Run: ${raise}`;
  }
  return undefined;
}

const [major, minor] = process.versions.node.split('.').map(Number);
const serves = process.argv[2] === 'serve';
// The gateway's own build has few files, all of which its start reads.
const built = new URL(`../dist/${serves ? 'serve' : 'cli'}.cjs`, import.meta.url);
const low = serves ? lowLimit() : undefined;
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`svc needs Node 20.19 or newer; this is ${process.versions.node}.
Install Node 24 (https://nodejs.org), or svc with a Node of its own: the Debian package or the single file (docs/install.md).`);
  process.exitCode = 1;
} else if (!existsSync(built)) {
  console.error('svc is not built yet. Run: npm run build');
  process.exitCode = 1;
} else if (low !== undefined) {
  console.error(low);
  process.exitCode = 1;
} else {
  createRequire(import.meta.url)(fileURLToPath(built));
}
