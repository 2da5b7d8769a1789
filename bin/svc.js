#!/usr/bin/env node
// Runs on any Node, so that it can say what is missing.
import { existsSync } from 'node:fs';

const [major, minor] = process.versions.node.split('.').map(Number);
// The gateway's own build has few files, all of which its start reads.
const built = new URL(`../dist/${process.argv[2] === 'serve' ? 'serve' : 'cli'}.js`, import.meta.url);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`svc needs Node 20.19 or newer; this is ${process.versions.node}.`);
  process.exitCode = 1;
} else if (!existsSync(built)) {
  console.error('svc is not built yet. Run: npm run build');
  process.exitCode = 1;
} else {
  await import(built.href);
}
