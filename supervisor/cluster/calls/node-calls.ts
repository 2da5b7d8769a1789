/**
 * Asks other nodes for what a node needs itself, and answers them. Caller and answer prove by the secret of the cluster that they
 * are nodes (specification, "Calls between nodes").
 */
import type { Logger } from 'pino';
import { type ErrorBody, errorEnvelope, errorFromBody, movedError, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Exchange, sendError } from '../../edge/edge.ts';
import { toSvcError } from '../../http/answers.ts';
import { NOT_OWNER, type NodeAnswer, type NodeClient } from './forwarding.ts';
import type { Owners } from './owners.ts';
import { digestOf, NODE_ANSWER, NODE_CALL, NODE_PATHS, type NodeCall, OWNER, type Proofs } from './proofs.ts';

/** Answers a call. Given and answer are JSON. `signal` aborts when the asking node has left. */
type Answerer = (given: unknown, signal: AbortSignal) => Promise<unknown>;

/** What came of a call: nothing was done where no node was found that owns the bucket, and it is not known where that went away. */
type Offered = { readonly value: unknown } | 'not-done' | 'unknown';

/** How long the owner may take; null without a limit. `signal` ends the call. */
type OfferOptions = { ms: number | null; signal?: AbortSignal | undefined };

type NodeCallsOptions = { owners: Owners; proofs: Proofs; nodes: NodeClient; log: Logger };

const NO_BODY = Buffer.alloc(0);

export class NodeCalls {
  readonly #options: NodeCallsOptions;
  readonly #answerers = new Map<string, Answerer>();
  /** The proof of a call of this node to itself, until it comes. */
  #own: string | null = null;

  constructor(options: NodeCallsOptions) {
    this.#options = options;
  }

  /** Has the calls of a name answered, where this node owns the bucket that they name. */
  serve(name: string, answer: Answerer): void {
    this.#answerers.set(NODE_PATHS + name, answer);
  }

  /**
   * Asks the owner of a bucket, for at most `ms`. Rejects with the error that it answers, and with `STORAGE_UNAVAILABLE` where no
   * owner is known or it cannot be reached: then it may have done what was asked.
   */
  async ask(name: string, bucket: number, given: unknown, ms: number): Promise<unknown> {
    const asked = await this.offer(name, bucket, given, { ms });
    if (asked === 'unknown') throw unavailable('The node that has this data cannot be reached.');
    if (asked === 'not-done') throw movedError();
    return asked.value;
  }

  /**
   * The same for who may ask again. Rejects with the error that the owner answers, and with the reason of `signal`. It asks no node that
   * is not the owner twice.
   */
  async offer(name: string, bucket: number, given: unknown, { ms, signal }: OfferOptions): Promise<Offered> {
    const { owners, proofs, nodes } = this.#options;
    const path = NODE_PATHS + name;
    const body = Buffer.from(JSON.stringify(given));
    for (let asked = 0; asked < 2; asked++) {
      const owner = owners.of(bucket);
      if (owner === undefined || owners.isOwn(bucket)) break;
      const proof = proofs.ofCall(path, { bucket, epoch: owner.epoch }, body);
      let answer: NodeAnswer | null;
      try {
        answer = await nodes.ask(owner.address, path, { headers: [NODE_CALL, proof], body, ms, signal });
      } catch {
        signal?.throwIfAborted();
        return 'unknown';
      }
      if (answer === null) break;
      const said = answer.headers[OWNER];
      if (answer.status !== NOT_OWNER || typeof said !== 'string') return { value: this.#valueOf(answer, proof) };
      const other = proofs.readOwner(proof, said);
      if (other == null || !owners.hear(bucket, other)) break;
    }
    return 'not-done';
  }

  /** Why this node is not reached at an address; null where it is. */
  async whyNotReached(address: string): Promise<string | null> {
    const { proofs, nodes } = this.#options;
    const path = `${NODE_PATHS}self`;
    const proof = proofs.ofCall(path, { bucket: 0, epoch: 0 }, NO_BODY);
    this.#own = proof;
    try {
      const headers = [NODE_CALL, proof];
      const answer = await nodes.ask(address, path, { headers, body: NO_BODY, ms: LIMITS.nodeConnectMs });
      if (answer === null) return 'nothing takes connections there';
    } catch (error) {
      return (error as Error).message;
    }
    return this.#own === proof ? 'something else answers there' : null;
  }

  /** Answers a node. Others are refused: what it answers is never sent on. */
  receive(exchange: Exchange): void {
    const { owners, proofs } = this.#options;
    const proof = exchange.header(NODE_CALL) ?? '';
    if (proof === this.#own) this.#own = null;
    let call: NodeCall;
    try {
      call = proofs.readCall(exchange.path, proof);
    } catch (error) {
      sendError(exchange, error as SvcError);
      return;
    }
    const onBody = (body: Buffer) => {
      const owner = owners.of(call.bucket);
      if (owner === undefined || !owners.isOwn(call.bucket) || owner.epoch < call.epoch)
        exchange.send(NOT_OWNER, { [OWNER]: proofs.ofOwner(proof, owner) }, '');
      else void this.#answer(exchange, proof, call, body);
    };
    exchange.readBody(LIMITS.nodeCallBytes, onBody, (error) => sendError(exchange, error));
  }

  async #answer(exchange: Exchange, proof: string, { digest }: NodeCall, body: Buffer): Promise<void> {
    const { proofs, log } = this.#options;
    const left = new AbortController();
    exchange.onAbort(() => left.abort());
    let status = 200;
    let text: string;
    try {
      if (digestOf(body) !== digest) throw new SvcError('UNAUTHORIZED', 'This is not the body that a node sent.');
      const answer = this.#answerers.get(exchange.path);
      if (answer === undefined) throw new SvcError('NOT_FOUND', 'This release answers no such call of a node.');
      text = JSON.stringify({ value: await answer(JSON.parse(body.toString()), left.signal) });
    } catch (error) {
      const known = toSvcError(error, log);
      status = known.status;
      text = JSON.stringify(errorEnvelope(known.toBody()));
    }
    const bytes = Buffer.from(text);
    const headers = { 'content-type': 'application/json', [NODE_ANSWER]: proofs.ofAnswer(proof, bytes) };
    exchange.send(status, headers, bytes);
  }

  #valueOf({ status, headers, body }: NodeAnswer, proof: string): unknown {
    const mac = headers[NODE_ANSWER];
    // Whoever has the address now need not be the node.
    if (typeof mac !== 'string' || !this.#options.proofs.isAnswer(proof, body, mac))
      throw unavailable('What answered for the node that has this data is no node of this cluster.');
    const answer = JSON.parse(body.toString()) as { value?: unknown; error?: ErrorBody };
    if (status === 200) return answer.value;
    throw errorFromBody(answer.error as ErrorBody);
  }
}

export function unavailable(message: string): SvcError {
  return new SvcError('STORAGE_UNAVAILABLE', message, { headers: { 'retry-after': '1' } });
}
