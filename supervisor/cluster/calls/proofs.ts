/**
 * Makes and checks the proofs of nodes: that a node of this cluster sends a request on, and that one says who owns a bucket
 * (specification, "Calls between nodes").
 */
import { createHash, createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { Owner } from './owners.ts';

/** The header of a request that another node sends on: `<expires> <bucket> <epoch> <client> <mac>`. */
export const FORWARDED = 'svc-forwarded';
/** The header of what a node asks for itself, under `NODE_PATHS`: `<expires> <bucket> <epoch> <sha256 of the body> <mac>`. */
export const NODE_CALL = 'svc-node-call';
/** The header of the answer to that: `<mac>`. */
export const NODE_ANSWER = 'svc-node-answer';
/** What the paths begin with that are for nodes alone. */
export const NODE_PATHS = '/_svc-node/';
/** The header of a node's answer that it does not own the bucket: `<epoch> <node> <address> <mac>`. */
export const OWNER = 'svc-owner';

/**
 * What the node that was asked knows. `bucket` is null where each node is asked for what it has; else `epoch` is that of the bucket.
 * `client` is the address of the client, empty where it left.
 */
export type Forwarded = { readonly bucket: number | null; readonly epoch: number; readonly client: string };

/** What a node asks for itself: of the owner of a bucket in its epoch. `digest` is that of the body. */
export type NodeCall = { readonly bucket: number; readonly epoch: number; readonly digest: string };

type Target = Pick<Exchange, 'method' | 'path' | 'query' | 'header'>;

const NUMBER = /^\d{1,15}$/;

export class Proofs {
  readonly #key: KeyObject;
  readonly #now: () => number;

  /** `secret` is the same at all nodes. `now` gives milliseconds since the epoch. */
  constructor(secret: string, now: () => number = Date.now) {
    this.#key = createSecretKey(secret, 'utf8');
    this.#now = now;
  }

  /** The value of `FORWARDED` for a request, which is sent with this `method`. */
  ofRequest(target: Target, method: string, { bucket, epoch, client }: Forwarded): string {
    const said = `${this.#expires()} ${bucket ?? '-'} ${epoch} ${client === '' ? '-' : client}`;
    return `${said} ${this.#macOfRequest(target, method, said)}`;
  }

  /** The value of `NODE_CALL` for a path and a body. */
  ofCall(path: string, { bucket, epoch }: Omit<NodeCall, 'digest'>, body: Buffer): string {
    const said = `${this.#expires()} ${bucket} ${epoch} ${digestOf(body)}`;
    return `${said} ${this.#mac('call', path, said)}`;
  }

  /** What a call to this path with this value of `NODE_CALL` proves. Throws `UNAUTHORIZED`. */
  readCall(path: string, value: string): NodeCall {
    const { bucket, epoch, last } = this.#read(value, (said) => this.#mac('call', path, said));
    if (bucket === null) throw refused('This asks for a bucket; name it.');
    return { bucket, epoch, digest: last };
  }

  /** The value of `NODE_ANSWER` for the body that answers a call with this value of `NODE_CALL`. */
  ofAnswer(call: string, body: Buffer): string {
    return this.#mac('answer', call, digestOf(body));
  }

  isAnswer(call: string, body: Buffer, mac: string): boolean {
    return isSame(mac, this.ofAnswer(call, body));
  }

  /** What a request with this value of `FORWARDED` proves. Throws `UNAUTHORIZED`. */
  read(target: Target, value: string): Forwarded {
    const { bucket, epoch, last } = this.#read(value, (said) => this.#macOfRequest(target, target.method, said));
    return { bucket, epoch, client: last === '-' ? '' : last };
  }

  #read(value: string, macOf: (said: string) => string): { bucket: number | null; epoch: number; last: string } {
    const [expires = '', bucket = '', epoch = '', last = '', mac = '', more] = value.split(' ');
    const numbers = bucket === '-' ? [expires, epoch] : [expires, bucket, epoch];
    const isWhole = more === undefined && numbers.every((part) => NUMBER.test(part));
    const isRight = isWhole && isSame(mac, macOf(value.slice(0, -mac.length - 1)));
    if (!isRight) throw refused('This is for nodes of this cluster, which prove it; leave the header out.');
    const left = Number(expires) - this.#now();
    if (left <= 0 || left > 2 * LIMITS.forwardedProofMs) {
      const seconds = LIMITS.forwardedProofMs / 1000;
      throw refused(`A node sent this on whose clock differs by more than ${seconds} s; set the clocks of the nodes.`);
    }
    return { bucket: bucket === '-' ? null : Number(bucket), epoch: Number(epoch), last };
  }

  #expires(): number {
    return this.#now() + LIMITS.forwardedProofMs;
  }

  /** The value of `OWNER` in the answer to a request with this value of `FORWARDED`. */
  ofOwner(request: string, owner: Owner | undefined): string {
    const said = owner === undefined ? '0 - -' : `${owner.epoch} ${encodeURIComponent(owner.node)} ${owner.address}`;
    return `${said} ${this.#mac('owner', request, said)}`;
  }

  /** The owner that a value of `OWNER` names; null for none, undefined for a value that proves nothing. */
  readOwner(request: string, value: string): Owner | null | undefined {
    const [epoch = '', node = '', address = '', mac = '', more] = value.split(' ');
    const isRight = more === undefined && isSame(mac, this.#mac('owner', request, value.slice(0, -mac.length - 1)));
    if (!isRight) return undefined;
    return node === '-' ? null : { node: decodeURIComponent(node), address, epoch: Number(epoch) };
  }

  #macOfRequest(target: Target, method: string, said: string): string {
    return this.#mac('request', method, target.path, target.query, target.header('host') ?? '', said);
  }

  /** None of the parts has a line break. */
  #mac(...parts: string[]): string {
    return createHmac('sha256', this.#key).update(parts.join('\n')).digest('base64url');
  }
}

/** As it is in `NODE_CALL`. */
export function digestOf(body: Buffer): string {
  return createHash('sha256').update(body).digest('base64url');
}

function isSame(given: string, right: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(right)];
  return one.length === other.length && timingSafeEqual(one, other);
}

function refused(message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message);
}
