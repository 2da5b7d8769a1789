/**
 * The fast edge: HTTP by uWebSockets.js, in native code. Its parser checks less than node:http does, so each request is
 * held against `framing.ts` first, chunked bodies are refused (`LENGTH_REQUIRED`), and a connection that sent a malformed
 * request is ended with the answer.
 *
 * What the native parser itself refuses gets no answer: HTTP/1.0 and 2.0, more than 48 headers, over 4 KiB of headers that
 * arrive in pieces, and whatever is not a request line. It ends such a connection, at the latest after 10 s. It ends one,
 * too, on which a request arrives before the one before it was answered (pipelining; answers never leave in the turn of
 * their request, see `ParserTurn`), and one whose body stands still for 10 s. It takes a header without a name for the end
 * of the headers: a Content-Length behind it is not seen.
 */

import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { PROCESS_ANSWERS } from './answer-budget.ts';
import { PROCESS_BODIES } from './body-budget.ts';
import { DescriptorGuard } from './descriptors.ts';
import type { Edge, EdgeOptions } from './edge.ts';
import { checkFraming, type FramingRules } from './framing.ts';
import { ParserTurn } from './parser-turn.ts';
import { guard } from './response.ts';
import { UwsExchange, type UwsState } from './uws-exchange.ts';

type Native = typeof import('uWebSockets.js');
type ListenCallback = (socket: us_listen_socket | false) => void;
/** What the published types leave out. */
type App = TemplatedApp & {
  listen(host: string, port: number, options: number, callback: ListenCallback): void;
  close?(): void;
};

const RULES: FramingRules = { chunked: false, hostRequired: true };
/** Of the native listen. Without it a second process may take the same port and share its connections. */
const EXCLUSIVE_PORT = 1;
const PACKAGE = 'uWebSockets.js';

/** One callback for all requests: headers are read at once, so no two requests are at it together. */
let collected: string[] = [];
function collect(name: string, value: string): void {
  collected.push(name, value);
}

/** Throws, with a message for the log, when the native module is not installed, does not load, or is too old. */
export function createUwsEdge(options: EdgeOptions): Edge {
  const uws = loadNative();
  const app = uws.App() as App;
  if (app.close === undefined) throw new Error(`The installed ${PACKAGE} is too old: its app.close() is missing.`);
  const close = app.close.bind(app);
  const state: UwsState = {
    draining: false,
    turn: new ParserTurn(),
    bodies: options.bodies ?? PROCESS_BODIES,
    answers: options.answers ?? PROCESS_ANSWERS,
    onFault: options.onFault,
  };
  let listenSocket: us_listen_socket | null = null;
  let address: { host: string; port: number } | null = null;

  app.any('/*', (res, req) => {
    const headers: string[] = [];
    collected = headers;
    req.forEach(collect);
    // Without a query the native call returns undefined, whatever its type says.
    const query: string | undefined = req.getQuery();
    const exchange = new UwsExchange(state, res, req.getCaseSensitiveMethod(), req.getUrl(), query ?? '', headers);
    const refusal = checkFraming(exchange.path, exchange.query, headers, RULES);
    if (refusal === null) guard(exchange, state.onFault, () => options.handler(exchange));
    else exchange.refuse(refusal);
  });

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
    stopAccepting,
    close: async () => {
      stopAccepting();
      close();
    },
  };
}

/** The binary for this platform, without the package's own entry, which falls back to JavaScript and prints about it. */
function loadNative(): Native {
  const require = createRequire(import.meta.url);
  const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
  let folder: string;
  try {
    folder = dirname(require.resolve(PACKAGE));
  } catch {
    throw new Error(`${PACKAGE} is not installed.`);
  }
  // The project's own package keeps its binaries beside the entry, the repackaged one in a folder of their own.
  const file = [join(folder, binary), join(folder, '..', 'binaries', binary)].find((path) => existsSync(path));
  if (file === undefined) {
    throw new Error(`${PACKAGE} has no binary for ${process.platform} ${process.arch} and Node ${process.version}.`);
  }
  try {
    const native = require(file) as Native;
    native._cfg('silent');
    return native;
  } catch (error) {
    throw new Error(`The binary of ${PACKAGE} does not load.`, { cause: error });
  }
}

async function freePort(host: string): Promise<number> {
  const probe = createServer().listen(0, host);
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** The native listen does not say why it failed; Node's does. */
function explainListen(host: string, port: number): Promise<Error> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', resolve);
    probe.listen(port, host, () => probe.close(() => resolve(new Error(`Cannot listen on ${host}:${port}.`))));
  });
}
