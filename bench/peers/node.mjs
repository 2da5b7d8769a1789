/** node:http and node:sqlite: `node.mjs <database> <schema>`. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { notesOf, operationOf } from './notes.mjs';

const [file, schema] = process.argv.slice(2);
const notes = notesOf(new DatabaseSync(file), readFileSync(schema, 'utf8'));
const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const data = operationOf(notes, request.url)(JSON.parse(Buffer.concat(parts).toString()));
  const body = JSON.stringify({ data });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  response.writeHead(200, headers).end(body);
});
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
process.stdin.on('end', () => process.exit(0)).resume();
