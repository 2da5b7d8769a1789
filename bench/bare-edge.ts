/**
 * "The bare edge": uWebSockets.js alone, the limit that the gateway is measured against. It parses a JSON body and answers
 * with the bytes it was given, which are the gateway's answer to the same request. A GET of an event stream stays open, and
 * every POST sends the given event to all that are.
 *
 * Reads a `BareAnswer` as one line of JSON from standard input, prints `{"port"}`, ends when standard input does.
 */

import uws, { type HttpResponse } from 'uWebSockets.js';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { BareAnswer } from './servers.ts';

const input = createInterface(process.stdin);
const [line] = (await once(input, 'line')) as [string];
const answer = JSON.parse(line) as BareAnswer;
const body = Buffer.from(answer.body, 'base64');
const event = Buffer.from(answer.event);
const streams = new Set<HttpResponse>();

function send(res: HttpResponse): void {
  res.cork(() => {
    res.writeStatus(answer.status);
    for (const [name, value] of answer.headers) res.writeHeader(name, value);
    res.end(body);
  });
}

function openStream(res: HttpResponse): void {
  res.onAborted(() => streams.delete(res));
  res.cork(() => {
    res.writeStatus('200 OK').writeHeader('content-type', 'text/event-stream').write(': changes\n\n');
  });
  streams.add(res);
}

uws
  .App()
  .get('/*', (res, req) => (req.getUrl().endsWith('/_changes') ? openStream(res) : send(res)))
  .post('/*', (res) => {
    const parts: Buffer[] = [];
    res.onAborted(() => {});
    res.onData((chunk, last) => {
      // The bytes are gone when this returns.
      parts.push(Buffer.from(chunk.slice(0)));
      if (!last) return;
      JSON.parse((parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)).toString());
      for (const stream of streams) stream.cork(() => stream.write(event));
      send(res);
    });
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error('The bare edge cannot listen.');
    process.stdout.write(`${JSON.stringify({ port: uws.us_socket_local_port(socket) })}\n`);
  });

input.on('close', () => process.exit(0));
