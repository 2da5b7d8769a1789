/**
 * Asks all nodes at once, until their answers together are of every bucket (specification, "Calls between nodes").
 */
import type { IncomingMessage } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Exchange } from '../../edge/edge.ts';
import { ANSWERED_FOR, BucketSet } from './bucket-set.ts';
import type { Head, NodeClient } from './forwarding.ts';
import type { Proofs } from './proofs.ts';

/** What each node is asked, at the path of the request. */
export type Question = {
  readonly exchange: Exchange;
  readonly method: string;
  readonly query: string;
  readonly body: Buffer | null;
};

/** The answer of the node at an address; `stream` has the body of an event stream. */
export type NodeAnswer = Head & {
  readonly address: string;
  readonly body: Buffer;
  readonly stream: IncomingMessage | null;
};

export type AllNodesOptions = {
  /** The addresses of those whose leases have not ended, this node's own too. */
  nodes(): readonly string[];
  client: NodeClient;
  proofs: Proofs;
};

export class AllNodes {
  readonly #options: AllNodesOptions;

  constructor(options: AllNodesOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the answers of all nodes, or with the one of a node that refuses. Asks again while a bucket is on its way from one
   * to another or a node stops, so that it must change nothing. Rejects with `STORAGE_UNAVAILABLE` where a bucket stays without an
   * answer.
   */
  async ask(question: Question): Promise<NodeAnswer[]> {
    const done = this.#options.client.begin();
    return await this.#ask(question).finally(done);
  }

  async #ask(question: Question): Promise<NodeAnswer[]> {
    const { exchange } = question;
    const client = exchange.remoteAddress;
    const begunAt = performance.now();
    for (;;) {
      const { answers, isOfAll } = await this.#once(question, client);
      const refusal = answers.find(({ status }) => status >= 300);
      if (refusal === undefined && areWhole(answers)) return answers;
      for (const { stream } of answers) stream?.destroy();
      const ms = isOfAll ? LIMITS.nodesMovingMs : LIMITS.nodesWholeMs;
      const isOver = exchange.aborted || performance.now() >= begunAt + ms;
      if (refusal !== undefined && (refusal.status !== 503 || isOver)) return [refusal];
      if (isOver) throw notWhole();
      await wait(LIMITS.nodesAgainMs);
    }
  }

  /** `isOfAll`: each node answered. */
  async #once({ exchange, method, query, body }: Question, client: string) {
    const { nodes, proofs } = this.#options;
    const { path } = exchange;
    const header = (name: string) => exchange.header(name);
    const asked = nodes().map(async (address): Promise<NodeAnswer | null> => {
      const proof = proofs.ofRequest({ method, path, query, header }, method, { bucket: null, epoch: 0, client });
      const timeoutMs = LIMITS.nodePartMs;
      try {
        const opened = this.#options.client.open({ exchange, address, proof, method, query, body, timeoutMs });
        const { answer, head } = await opened;
        const isStream = head.length === undefined && typeOf(head).startsWith('text/event-stream');
        return {
          ...head,
          address,
          ...(isStream ? { body: NOTHING, stream: answer } : { body: await whole(answer), stream: null }),
        };
      } catch {
        // Whether somebody else has its buckets, their answers say.
        return null;
      }
    });
    const all = await Promise.all(asked);
    const answers = all.filter((answer) => answer !== null);
    return { answers, isOfAll: answers.length === all.length };
  }
}

const NOTHING = Buffer.alloc(0);

export function typeOf({ headers }: Pick<Head, 'headers'>): string {
  return String(headers['content-type'] ?? '');
}

function areWhole(answers: readonly NodeAnswer[]): boolean {
  const sets = answers.map(({ headers }) => BucketSet.read(String(headers[ANSWERED_FOR] ?? '')));
  return BucketSet.makeWhole(sets.filter((set) => set !== null));
}

/** Rejects when it is cut off. */
async function whole(answer: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

function notWhole(): SvcError {
  const message = 'Not all apps have a node now that can be reached; try again in a moment.';
  return new SvcError('STORAGE_UNAVAILABLE', message, { headers: { 'retry-after': '1' } });
}
