/** Answers a request about the apps of all nodes, with what each of them answers (specification, "Calls between nodes"). */
import type { RouteRow } from '../../../protocol/routes/row.ts';
import type { Exchange, ResponseHeaders } from '../../edge/edge.ts';
import { type AllNodes, type NodeAnswer, typeOf } from './all-nodes.ts';
import { ANSWERED_FOR } from './bucket-set.ts';
import { EventCutter } from './event-cutter.ts';
import { MERGES } from './merges.ts';

/** An event stream of all nodes. */
type Followed = { readonly addresses: readonly string[]; end(isWhole: boolean): void };

export class Gathering {
  readonly #nodes: AllNodes;
  readonly #followed = new Set<Followed>();

  constructor(nodes: AllNodes) {
    this.#nodes = nodes;
  }

  /** Rejects with the error to answer. */
  async answer(exchange: Exchange, row: RouteRow, body: Buffer | null): Promise<void> {
    const merge = MERGES.get(row);
    const given = new URLSearchParams(exchange.query);
    const query = merge?.asked === undefined ? exchange.query : merge.asked(given).toString();
    // Without their bodies answers cannot be put together.
    const method = exchange.method === 'HEAD' ? 'GET' : exchange.method;
    const answers = await this.#nodes.ask({ exchange, method, query, body });
    const [first] = answers as [NodeAnswer];
    if (first.status >= 300) exchange.send(first.status, headersOf(first), first.body);
    else if (first.stream !== null) this.#follow(exchange, answers);
    else {
      const parts = answers.map(parsed);
      const merged = JSON.stringify(merge?.of(parts, given));
      exchange.send(first.status, headersOf(first), isEvent(first) ? `event: message\ndata: ${merged}\n\n` : merged);
    }
  }

  /** Ends the streams that lack the events of a node that is new: who follows them opens them again. */
  nodesAre(addresses: readonly string[]): void {
    for (const followed of this.#followed)
      if (!addresses.every((address) => followed.addresses.includes(address))) followed.end(true);
  }

  #follow(exchange: Exchange, answers: readonly NodeAnswer[]): void {
    const [first] = answers as [NodeAnswer];
    const sources = answers.flatMap(({ stream }) => stream ?? []);
    const stream = exchange.stream(first.status, headersOf(first));
    const followed: Followed = {
      addresses: answers.map(({ address }) => address),
      end: (isWhole) => {
        if (!this.#followed.delete(followed)) return;
        for (const source of sources) source.destroy();
        if (isWhole) stream.end();
        else stream.cutOff();
      },
    };
    this.#followed.add(followed);
    stream.onDrain(() => {
      for (const source of sources) source.resume();
    });
    for (const [index, source] of sources.entries()) {
      const events = new EventCutter(index === 0);
      source.on('error', () => {}).on('close', () => followed.end(source.complete));
      source.on('data', (bytes: Buffer) => {
        const taken = events.take(bytes);
        if (taken.length === 0 || stream.write(taken)) return;
        for (const each of sources) each.pause();
      });
    }
    exchange.onAbort(() => followed.end(true));
    if (exchange.method === 'HEAD') followed.end(true);
  }
}

/** Those of the first answer, but what the nodes tell each other. */
function headersOf({ headers: { [ANSWERED_FOR]: _told, ...headers } }: NodeAnswer): ResponseHeaders {
  return headers;
}

function isEvent(answer: NodeAnswer): boolean {
  return typeOf(answer).startsWith('text/event-stream');
}

/** The JSON of an answer, which may be the one event of a stream. */
function parsed(answer: NodeAnswer): unknown {
  const text = answer.body.toString();
  return JSON.parse(isEvent(answer) ? (/^data: ?(.*)$/m.exec(text)?.[1] ?? '') : text);
}
