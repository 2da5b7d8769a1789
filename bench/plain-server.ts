/**
 * "The plain server": what someone would write without a gateway. One process, `node:http` and better-sqlite3, every app in
 * it: nothing validated, nothing isolated, no deadlines, one commit for each request that writes.
 *
 * `plain-server.ts <folder> <full|normal>`: the database of an app is `<folder>/<app>.sqlite`, its files are in
 * `<folder>/<app>/`. Prints `{"port"}`, ends when standard input does.
 */
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Durability, OPERATIONS, type Operation, openNotes, WRITES } from './notes.ts';

const TYPES: Record<string, string> = { '.css': 'text/css', '.html': 'text/html', '.png': 'image/png' };
const [folder, durability] = process.argv.slice(2) as [string, Durability];
type App = { notes: ReturnType<typeof openNotes>; manifest: unknown; streams: Set<ServerResponse>; seq: number };
const apps = new Map<string, Promise<App>>();

async function openApp(name: string): Promise<App> {
  const manifest: unknown = JSON.parse(await readFile(join(folder, name, 'app.json'), 'utf8').catch(() => '{}'));
  return { notes: openNotes(folder, name, durability), manifest, streams: new Set(), seq: 0 };
}

function appOf(name: string): Promise<App> {
  const app = apps.get(name) ?? openApp(name);
  apps.set(name, app);
  return app;
}

function answer(res: ServerResponse, value: unknown): void {
  const body = JSON.stringify(value);
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
}

async function run(app: App, operation: Operation, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of req) parts.push(part as Buffer);
  // Who calls sends what each operation takes; a server without schemas has only their word.
  const data = app.notes[operation](JSON.parse(Buffer.concat(parts).toString()) as never);
  if (WRITES.some((name) => name === operation)) {
    const event = `event: change\nid: ${++app.seq}\ndata: ${JSON.stringify({ table: 'notes', seq: app.seq })}\n\n`;
    for (const stream of app.streams) stream.write(event);
  }
  answer(res, { data });
}

function openStream({ streams }: App, res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' }).write(': changes\n\n');
  streams.add(res);
  res.on('close', () => streams.delete(res));
}

async function sendFile(path: string, res: ServerResponse): Promise<void> {
  const { size } = await stat(path);
  res.writeHead(200, { 'content-type': TYPES[extname(path)], 'content-length': size });
  await pipeline(createReadStream(path), res);
}

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const [, app = '', what = ''] = (req.url as string).split('/');
  const operation = OPERATIONS.find((name) => name === what);
  if (req.method === 'POST' && operation) await run(await appOf(app), operation, req, res);
  else if (what === 'describe') answer(res, { data: (await appOf(app)).manifest });
  else if (what === 'changes') openStream(await appOf(app), res);
  else await sendFile(join(folder, app, what), res);
}

const server = createServer((req, res) => {
  handle(req, res).catch((error: Error) => {
    if (!res.headersSent) res.writeHead(500).end(error.message);
    else res.destroy();
  });
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`),
);
process.stdin.on('end', () => process.exit(0)).resume();
