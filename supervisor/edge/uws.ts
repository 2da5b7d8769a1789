/**
 * Serves HTTP with uWebSockets.js, in native code, which is the fast edge. Its parser checks less than node:http does. So
 * `framing.ts` checks each request first, chunked bodies are refused (`LENGTH_REQUIRED`), and a malformed request ends its
 * connection.
 *
 * The native parser ends a connection without an answer, at the latest after 10 s, for HTTP/1.0 and 2.0, more than 48 headers,
 * over 4 KiB of headers in pieces, what is no request line, a request that arrives before the one before it was answered
 * (pipelining; see `ParserTurn`), and a body that stands still. It takes a header without a name for the end of the headers: a
 * Content-Length behind it is not seen.
 */

import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { ConfigError } from '../config.ts';
import { DescriptorGuard } from './descriptors.ts';
import type { Edge } from './edge.ts';
import { type EdgeOptions, stateOf } from './exchange.ts';
import { loadUws, NoUws } from './uws-binding.ts';
import { ParserTurn, requestHandler, type UwsState } from './uws-exchange.ts';

type ListenCallback = (socket: us_listen_socket | false) => void;
/** The native app with members that the published types lack. */
type App = TemplatedApp & {
  listen(host: string, port: number, options: number, callback: ListenCallback): void;
  close?(): void;
};

/** An option of the native listen. Without it a second process may take the same port and share its connections. */
const EXCLUSIVE_PORT = 1;

/** Makes the edge. Throws `NoUws` when there is no native code for this machine, or one that is too old. */
export function createUwsEdge(options: EdgeOptions): Edge {
  const uws = loadUws();
  const app = uws.App() as App;
  if (app.close === undefined) throw new NoUws('The installed uWebSockets.js is too old: its app.close() is missing.');
  const close = app.close.bind(app);
  const state: UwsState = { ...stateOf(options), turn: new ParserTurn() };
  let listenSocket: us_listen_socket | null = null;
  let address: { host: string; port: number } | null = null;

  app.any('/*', requestHandler(state, options.handler));

  const closeListenSocket = (): void => {
    if (listenSocket !== null) uws.us_listen_socket_close(listenSocket);
    listenSocket = null;
  };

  // Without a free descriptor the native code would try to take the next connection in an endless loop.
  const descriptors = new DescriptorGuard((isFull) => {
    if (isFull) closeListenSocket();
    else if (address !== null) {
      app.listen(address.host, address.port, EXCLUSIVE_PORT, (socket) => {
        if (socket !== false) listenSocket = socket;
        else options.onFault(new Error(`Port ${address?.port} was taken while there were too many connections.`));
      });
    }
  });

  const stopAccepting = (): void => {
    state.draining = true;
    descriptors.stop();
    closeListenSocket();
  };

  return {
    kind: 'uws',
    listen: async (host, port) => {
      // A port that the system chose could not be listened on again while connections to it are open.
      const wanted = port === 0 ? await freePort(host) : port;
      return new Promise((resolve, reject) => {
        app.listen(host, wanted, EXCLUSIVE_PORT, (socket) => {
          if (socket === false) {
            explainListen(host, wanted).then(reject, reject);
          } else {
            listenSocket = socket;
            address = { host, port: uws.us_socket_local_port(socket) };
            descriptors.start();
            resolve(address.port);
          }
        });
      });
    },
    adopt: async () => {
      throw new ConfigError(
        `uWebSockets.js cannot take over the socket of another process: set "edge" to "node".`,
        'edge',
      );
    },
    stopAccepting,
    close: async () => {
      stopAccepting();
      close();
    },
  };
}

async function freePort(host: string): Promise<number> {
  const probe = createServer().listen(0, host);
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Why the native listen failed. It does not say so itself, but Node's does. */
function explainListen(host: string, port: number): Promise<Error> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', resolve);
    probe.listen(port, host, () => probe.close(() => resolve(new Error(`Cannot listen on ${host}:${port}.`))));
  });
}
