/** Answers a request at this node, or hands it to the node that owns its data (specification, "Calls between nodes"). */
import type { Readable } from 'node:stream';
import type { Logger } from 'pino';
import { movedError, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Subject as FilesOf } from '../../../storage/shared-files/subjects.ts';
import { type Exchange, type ExchangeHandler, sendError } from '../../edge/edge.ts';
import { isNavigation } from '../../http/access/fetch-metadata.ts';
import { EMBEDDED, type Places } from '../../http/access/places.ts';
import { sendErrorPage } from '../../pages/error-page.ts';
import { NOT_OWNER, NodeClient } from './forwarding.ts';
import { NodeCalls, unavailable } from './node-calls.ts';
import type { Owners } from './owners.ts';
import { FORWARDED, type Forwarded, NODE_PATHS, OWNER, Proofs } from './proofs.ts';
import { RequestedBuckets } from './requested-buckets.ts';

export type CallsOptions = {
  owners: Owners;
  /** The same at all nodes. */
  secret: string;
  /** Null where no Host is the origin of an app. */
  places: Places | null;
  /** Resolves when the database of the cluster has the files of an app or workspace; rejects as `SharedFiles.store` does. */
  store(files: FilesOf): Promise<void>;
  /** Answers what is this node's. */
  next: ExchangeHandler;
  log: Logger;
  /** Runs before each request. */
  before?: () => void;
};

/** A request for another node. `isSecond`: the first node that it was sent to was no owner. */
type Call = {
  readonly exchange: Exchange;
  readonly bucket: number;
  readonly body: Buffer | Readable | null;
  readonly client: string;
  readonly isSecond: boolean;
};

export class Calls {
  /** What nodes ask each other for themselves. */
  readonly ofNodes: NodeCalls;
  readonly #options: CallsOptions;
  readonly #proofs: Proofs;
  readonly #buckets: RequestedBuckets;
  readonly #nodes = new NodeClient();

  constructor(options: CallsOptions) {
    this.#options = options;
    this.#proofs = new Proofs(options.secret);
    this.#buckets = new RequestedBuckets(options.places);
    this.ofNodes = new NodeCalls({ ...options, proofs: this.#proofs, nodes: this.#nodes });
  }

  readonly handle: ExchangeHandler = (exchange) => {
    this.#options.before?.();
    if (exchange.path.startsWith(NODE_PATHS)) {
      this.ofNodes.receive(exchange);
      return;
    }
    const proof = exchange.header(FORWARDED);
    if (proof !== undefined) {
      this.#receive(exchange, proof);
      return;
    }
    this.#buckets.find(
      exchange,
      ({ bucket, files }, body) => {
        const { owners } = this.#options;
        if (bucket === null || owners.isOwn(bucket)) this.#answer(exchange, files);
        else if (owners.of(bucket) === undefined) this.#refuse(exchange, unavailable('No node has this data now.'));
        else this.#read(exchange, bucket, body);
      },
      (error) => sendError(exchange, error),
    );
  };

  /** Ends what is under way to a node whose lease has ended. Its clients learn it as if the node had closed the connections. */
  drop(address: string): void {
    this.#nodes.drop(address);
  }

  /** Ends what is under way to all nodes. */
  close(): void {
    this.#nodes.close();
  }

  /** Answers what another node sent on, and never sends it on again. */
  #receive(exchange: Exchange, proof: string): void {
    const { owners } = this.#options;
    let forwarded: Forwarded;
    try {
      forwarded = this.#proofs.read(exchange, proof);
    } catch (error) {
      sendError(exchange, error as SvcError);
      return;
    }
    const { bucket, epoch, client } = forwarded;
    const owner = owners.of(bucket);
    // Where the sender knows a later epoch, this node may have lost the bucket meanwhile.
    if (owner === undefined || !owners.isOwn(bucket) || owner.epoch < epoch) {
      exchange.send(NOT_OWNER, { [OWNER]: this.#proofs.ofOwner(proof, owner) }, '');
    } else if (exchange.method === 'OPTIONS') exchange.send(204, {}, '');
    else {
      exchange.clientAddress = client;
      this.#buckets.find(
        exchange,
        ({ files }) => this.#answer(exchange, files),
        (error) => sendError(exchange, error),
      );
    }
  }

  /** Answers here, once the files that it changed are where another node would find them. */
  #answer(exchange: Exchange, files: FilesOf | null): void {
    const { next, store } = this.#options;
    if (files !== null) exchange.beforeAnswer = () => store(files);
    next(exchange);
  }

  /** Takes the body of a request for another node: in one piece where it is small, so that it can be sent to a second one. */
  #read(exchange: Exchange, bucket: number, read: Buffer | null): void {
    const call = { exchange, bucket, client: exchange.remoteAddress, isSecond: false };
    const length = Number(exchange.header('content-length') ?? 0);
    const isChunked = exchange.header('transfer-encoding') !== undefined;
    if (read !== null) this.#send({ ...call, body: read });
    else if (!isChunked && length === 0) this.#send({ ...call, body: null });
    else if (!isChunked && length <= LIMITS.forwardedPieceBytes) {
      exchange.readBody(
        LIMITS.forwardedPieceBytes,
        (body) => this.#send({ ...call, body }),
        (error) => sendError(exchange, error),
      );
    } else {
      // The route of the owner has the limits.
      const body = exchange.streamBody(Number.MAX_SAFE_INTEGER, LIMITS.uploadTimeoutMs);
      body.on('error', (error) => {
        if (error instanceof SvcError) sendError(exchange, error);
      });
      void this.#stream({ ...call, body });
    }
  }

  #send(call: Call): void {
    const { exchange, bucket, client, body, isSecond } = call;
    const { owners } = this.#options;
    const owner = owners.of(bucket);
    if (owner === undefined || owners.isOwn(bucket)) {
      this.#refuse(exchange, movedError());
      return;
    }
    const { address, epoch } = owner;
    const proof = this.#proofs.ofRequest(exchange, exchange.method, { bucket, epoch, client });
    this.#nodes.forward({
      exchange,
      address,
      proof,
      body,
      onOther: (said) => {
        // A stream cannot be sent twice.
        const canRepeat = body === null || Buffer.isBuffer(body);
        if (this.#hear(bucket, proof, said) && !isSecond && canRepeat) this.#send({ ...call, isSecond: true });
        else this.#refuse(exchange, movedError());
      },
      onLost: (wasSent) => this.#refuse(exchange, lost(exchange, wasSent)),
    });
  }

  /** Sends a body that cannot be sent twice, once a node has said that it is the owner. */
  async #stream(call: Call & { body: Readable }): Promise<void> {
    const { exchange, bucket, client, body } = call;
    const { owners } = this.#options;
    for (let asked = 0; asked < 2; asked++) {
      const owner = owners.of(bucket);
      if (owner === undefined || owners.isOwn(bucket)) break;
      const { address, epoch } = owner;
      const proof = this.#proofs.ofRequest(exchange, 'OPTIONS', { bucket, epoch, client });
      let said: string | null;
      try {
        said = await this.#nodes.askOwner(exchange, address, proof);
      } catch {
        this.#refuse(exchange, lost(exchange, false));
        body.destroy();
        return;
      }
      if (said === null) {
        this.#send(call);
        return;
      }
      if (!this.#hear(bucket, proof, said)) break;
    }
    this.#refuse(exchange, movedError());
    body.destroy();
  }

  /** Learns what a node says of the owner. False: it was known. */
  #hear(bucket: number, proof: string, said: string): boolean {
    const owner = this.#proofs.readOwner(proof, said);
    return owner !== null && this.#options.owners.hear(bucket, owner);
  }

  #refuse(exchange: Exchange, error: SvcError): void {
    if (!isNavigation(exchange)) {
      sendError(exchange, error);
      return;
    }
    let place = EMBEDDED;
    try {
      place = this.#options.places?.of(exchange.header('host')) ?? EMBEDDED;
    } catch {
      // The page has no links then.
    }
    sendErrorPage(exchange, place, error);
  }
}

function lost({ method }: Exchange, wasSent: boolean): SvcError {
  if (!wasSent || method === 'GET' || method === 'HEAD')
    return unavailable('The node that has this data cannot be reached; try again in a moment.');
  return unavailable(
    'The node that has this data went away; whether this was done is not known. Try again with the same idempotency key.',
  );
}
