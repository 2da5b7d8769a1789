// The single file's own program: unpacks what it carries once, into the cache folder under its hash, and becomes that Node with
// the command. Nothing here runs after that.
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { getAsset } from 'node:sea';
import { zstdDecompressSync } from 'node:zlib';
import { UnpackSync } from 'tar';

/** What Node looks at to tell that it is a single file; its last character says it. In two parts, so that it is not found here. */
const FUSE = ['NODE_SEA_FUSE', 'fce680ab2cc467b6e072b8b5df1996b2:1'].join('_');
const CHUNK = 8 * 1024 * 1024;

/** Writes a copy of this program that is Node alone. */
function copyNode(to) {
  copyFileSync(process.execPath, to);
  const file = openSync(to, 'r+');
  const mark = Buffer.from(FUSE);
  const chunk = Buffer.alloc(CHUNK + mark.length);
  for (let at = 0; ; at += CHUNK) {
    const length = readSync(file, chunk, 0, chunk.length, at);
    if (length < mark.length) throw new Error('its Node has no mark of a single file');
    const found = chunk.subarray(0, length).indexOf(mark);
    if (found < 0) continue;
    writeSync(file, '0', at + found + mark.length - 1);
    closeSync(file);
    return;
  }
}

/** Unpacks beside the place and moves it there, so that what is there is whole, also if two start at a time. */
function unpack(place) {
  const part = `${place}.${process.pid}`;
  mkdirSync(part, { recursive: true, mode: 0o700 });
  try {
    new UnpackSync({ cwd: part }).end(zstdDecompressSync(Buffer.from(getAsset('package.tar.zst'))));
    copyNode(join(part, 'node'));
    // A power cut must not leave the name without the files.
    spawnSync('sync', ['-f', part]);
    renameSync(part, place);
  } catch (error) {
    if (!existsSync(place)) throw error;
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}

const cache = process.env.XDG_CACHE_HOME || join(process.env.HOME || homedir(), '.cache');
const place = join(cache, 'svc', getAsset('hash', 'utf8'));
const node = join(place, 'node');
try {
  if (!existsSync(node)) {
    if (process.stderr.isTTY) console.error(`Unpacking svc into ${place}, once.`);
    unpack(place);
  }
} catch (error) {
  console.error(`✗ svc cannot be unpacked into ${place}: ${error.message}.`);
  console.error('  It needs 260 MB there. Name another folder: XDG_CACHE_HOME=<folder>');
  process.exit(1);
}
const script = join(place, 'package/bin/svc.js');
const env = { ...process.env, SVC_SINGLE_FILE: process.execPath };
try {
  process.execve(node, [node, script, ...process.argv.slice(2)], env);
} catch (error) {
  console.error(`✗ ${node} cannot be run: ${error.message}.`);
  console.error('  Where the cache folder may have no programs, name another one: XDG_CACHE_HOME=<folder>');
  process.exit(1);
}
