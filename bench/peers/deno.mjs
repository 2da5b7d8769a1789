/** Deno.serve and node:sqlite: `deno.mjs <database> <schema>`. */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { DatabaseSync } from 'node:sqlite';
import { notesOf, operationOf } from './notes.mjs';

const [file, schema] = process.argv.slice(2);
const notes = notesOf(new DatabaseSync(file), readFileSync(schema, 'utf8'));
Deno.serve(
  { hostname: '127.0.0.1', port: 0, onListen: ({ port }) => console.log(JSON.stringify({ port })) },
  async (request) => Response.json({ data: operationOf(notes, request.url)(await request.json()) }),
);
process.stdin.on('end', () => process.exit(0)).resume();
