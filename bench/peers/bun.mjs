/** Bun.serve and bun:sqlite: `bun.mjs <database> <schema> [group]`; with `group`, writes of one turn share a commit. */

import { Database } from 'bun:sqlite';
import { readFileSync } from 'node:fs';
import { inGroups, notesOf, operationOf } from './notes.mjs';

const [file, schema, mode] = process.argv.slice(2);
const db = new Database(file);
const notes = notesOf(db, readFileSync(schema, 'utf8'));
const inGroup = inGroups(db);
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const operation = operationOf(notes, request.url);
    const input = await request.json();
    const grouped = mode === 'group' && operation === notes.put;
    return Response.json({ data: grouped ? await inGroup(() => operation(input)) : operation(input) });
  },
});
console.log(JSON.stringify({ port: server.port }));
process.stdin.on('end', () => process.exit(0)).resume();
