/**
 * The network of an app under test: the requests of its handlers go to the test, which answers instead of the hosts. It keeps the
 * notices for people.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { Relay } from '../../protocol/rules/egress.ts';
import type { SentNotice } from '../../supervisor/simulation.ts';

/** Answers a request of `ctx.fetch`; undefined if it has no answer. If it throws, the host counts as unreachable. */
export type FetchStub = (request: Request) => Response | undefined | Promise<Response | undefined>;

export class Outside {
  readonly relay: Relay;
  /** What the app has sent to people, oldest first. */
  readonly notices: SentNotice[] = [];
  readonly #servers: Server[];
  readonly #unanswered: (request: Request) => void;
  #stub: FetchStub = () => undefined;

  /** `unanswered` is called for each request without an answer. */
  constructor(folder: string, unanswered: (request: Request) => void) {
    this.relay = { http: join(folder, 'http'), https: join(folder, 'https') };
    this.#unanswered = unanswered;
    this.#servers = (['http', 'https'] as const).map((protocol) =>
      createServer((req, res) => {
        this.#answer(protocol, req, res).catch(() => res.destroy());
      }).listen(this.relay[protocol]),
    );
  }

  set stub(stub: FetchStub) {
    this.#stub = stub;
  }

  close(): void {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
  }

  async #answer(protocol: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/', headers } = req;
    const body = await buffer(req);
    const given = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]],
    );
    const request = new Request(`${protocol}://${headers.host}${url}`, {
      method,
      headers: given,
      ...(body.length > 0 && { body }),
    });
    const response = await this.#stub(request);
    if (response === undefined) {
      this.#unanswered(request);
      res.destroy();
      return;
    }
    res.writeHead(response.status, response.statusText, [...response.headers].flat());
    res.end(Buffer.from(await response.arrayBuffer()));
  }
}
