/**
 * "The bare edge": uWebSockets.js alone, the limit that the gateway is measured against. It reads the request, parses a
 * JSON body, and answers with the bytes it was given, which are an answer of the gateway to the same request. A GET of an
 * event stream stays open; then every request also sends the given event to every open stream.
 *
 * Reads its `BareAnswer` as one line of JSON on standard input, prints `{"port"}`, ends when standard input does.
 */
import { createInterface } from 'node:readline';
import { type HttpResponse, us_socket_local_port, App } from 'uWebSockets.js';

export type BareAnswer = { status: string; headers: [name: string, value: string][]; body: string; event: string };

const [line] = await new Promise<[string]>((resolve) => {
  createInterface(process.stdin).once('line', (text) => resolve([text]));
});
