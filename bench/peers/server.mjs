/**
 * The HTTP server and the SQLite of Bun, Deno or Node, whichever runs this: `server.mjs <database> <schema> [group]`; with `group`,
 * writes of one turn share a commit.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { inGroups, notesOf, operationOf } from './notes.mjs';

const { Bun, Deno } = globalThis;
const [file, schema, mode] = process.argv.slice(2);
const { Database, DatabaseSync } = await import(Bun ? 'bun:sqlite' : 'node:sqlite');
const db = new (Database ?? DatabaseSync)(file);
const notes = notesOf(db, readFileSync(schema, 'utf8'));
const inGroup = inGroups(db);
const say = (port) => console.log(JSON.stringify({ port }));

async function answer(request) {
  const operation = operationOf(notes, request.url);
  const input = await request.json();
  const grouped = mode === 'group' && operation === notes.put;
  return Response.json({ data: grouped ? await inGroup(() => operation(input)) : operation(input) });
}

/** Node has no server that takes such a function. */
async function answerNode(request, response) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const data = operationOf(notes, request.url)(JSON.parse(Buffer.concat(parts).toString()));
  const body = JSON.stringify({ data });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  response.writeHead(200, headers).end(body);
}

const at = { hostname: '127.0.0.1', port: 0 };
if (Bun) say(Bun.serve({ ...at, fetch: answer }).port);
else if (Deno) Deno.serve({ ...at, onListen: ({ port }) => say(port) }, answer);
else {
  const { createServer } = await import('node:http');
  const server = createServer(answerNode).listen(at.port, at.hostname, () => say(server.address().port));
}
process.stdin.on('end', () => process.exit(0)).resume();
