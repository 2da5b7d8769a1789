/** Answers a request at this node, or hands it to the node that owns its data (specification, "Calls between nodes"). */
import type { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { bucketOf } from '../../../protocol/buckets.ts';
import { movedError, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Subject as FilesOf } from '../../../storage/shared-files/subjects.ts';
import { type Exchange, type ExchangeHandler, sendError } from '../../edge/edge.ts';
import { isNavigation } from '../../http/access/fetch-metadata.ts';
import { EMBEDDED, type Places } from '../../http/access/places.ts';
import { toSvcError } from '../../http/answers.ts';
import { sendErrorPage } from '../../pages/error-page.ts';
import { AllNodes } from './all-nodes.ts';
import { ANSWERED_FOR } from './bucket-set.ts';
import { Finder, FOUND_APP, type Locate } from './finder.ts';
import { NOT_OWNER, NodeClient } from './forwarding.ts';
import { Gathering } from './gathering.ts';
import { NodeCalls, unavailable } from './node-calls.ts';
import type { Owner, Owners } from './owners.ts';
import { FORWARDED, type Forwarded, NODE_PATHS, OWNER, Proofs } from './proofs.ts';
import { type Found, RequestedBuckets } from './requested-buckets.ts';

export type CallsOptions = {
  owners: Owners;
  /** The same at all nodes. */
  secret: string;
  /** Null where no Host is the origin of an app. */
  places: Places | null;
  /**
   * What stores the files of an app or workspace, if they have been this node's since now: it resolves when the database of the cluster
   * has them, and rejects as `SharedFiles.store` does.
   */
  storing(files: FilesOf): () => Promise<void>;
  /** Answers what is this node's. */
  next: ExchangeHandler;
  /** The addresses of the nodes whose leases have not ended, this one's own too. */
  nodes(): readonly string[];
  /** Finds what this node has. */
  locate: Locate;
  log: Logger;
  /** Runs before each request. */
  before?: () => void;
  /** Why the node does not know at this moment what happens to a bucket, so that nothing waits for it; null where it does. */
  absence?: (bucket: number) => SvcError | null;
  /** Whether nobody is known to send a request: it is refused here, and no other node is asked where its run is. */
  isStranger?: (exchange: Exchange) => boolean;
  /** Begins what a request that is answered here waits for, given the app whose page sends it; null for nothing. */
  known?: (exchange: Exchange, page: string | null, bucket: number | null) => (() => Promise<void>) | null;
};

/**
 * A request for another node. `isSecond`: the first node that it was sent to was no owner. `found` is what it is about where that had to
 * be found.
 */
type Call = {
  readonly exchange: Exchange;
  readonly bucket: number;
  readonly found: Found | null;
  /** What it changes. */
  readonly files: FilesOf | null;
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
  readonly #finder: Finder;
  readonly #gathering: Gathering;
  /** Since when requests wait for a node that serves what they are about. */
  readonly #waitsSince = new WeakMap<Exchange, number>();
  /**
   * Requests for other nodes since the start, each time that one was sent: what was answered, was refused because the other node is
   * not the owner, or was lost with that node. Those that were not sent have no owner that is known.
   */
  readonly sent = { answered: 0, moved: 0, lost: 0, ownerless: 0 };

  constructor(options: CallsOptions) {
    this.#options = options;
    this.#proofs = new Proofs(options.secret);
    this.#buckets = new RequestedBuckets(options.places);
    this.ofNodes = new NodeCalls({
      owners: options.owners,
      log: options.log,
      proofs: this.#proofs,
      nodes: this.#nodes,
    });
    const { nodes } = options;
    const all = new AllNodes({ nodes, client: this.#nodes, proofs: this.#proofs });
    this.#finder = new Finder(all, options.locate);
    this.#gathering = new Gathering(all);
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
      (requested, body) => {
        if ('bucket' in requested) this.#bring(exchange, requested.bucket, requested.files, body);
        else if ('found' in requested) this.#find(exchange, requested.found);
        else if ('refused' in requested) this.#refuse(exchange, requested.refused);
        else if (this.#isOurs(exchange))
          this.#gathering.answer(exchange, requested.every, body).catch((error) => this.#fail(exchange, error));
      },
      (error) => sendError(exchange, error),
    );
  };

  #bring(exchange: Exchange, bucket: number | null, files: FilesOf | null, body: Buffer | null): void {
    if (bucket === null || this.#enter(exchange, bucket)) this.#answer(exchange, bucket, files);
    else if (this.#isOurs(exchange)) this.#read(exchange, bucket, files, body);
  }

  /** Whether the bucket is this node's, which then keeps it until the answer begins. */
  #enter(exchange: Exchange, bucket: number): boolean {
    const { owners } = this.#options;
    if (!owners.isOwn(bucket)) return false;
    const done = owners.underWay.begin(bucket);
    if (exchange.aborted) done();
    else exchange.onceOver = done;
    return true;
  }

  /** Whether the client asked for this gateway, which the node that answers takes on trust. Else it refuses. */
  #isOurs(exchange: Exchange): boolean {
    try {
      this.#options.places?.of(exchange.header('host'));
      return true;
    } catch (error) {
      this.#refuse(exchange, error as SvcError);
      return false;
    }
  }

  /** Brings a request to the node that has what it is about. What none has, this one answers. */
  #find(exchange: Exchange, found: Found): void {
    if (!this.#isOurs(exchange)) return;
    if (found.of === 'run' && this.#options.isStranger?.(exchange)) {
      this.#answer(exchange, null, null);
      return;
    }
    const find = (body: Buffer | null) =>
      this.#finder.find(exchange, found).then(
        (app) =>
          this.#bringFound(
            { exchange, found, files: null, body, client: exchange.remoteAddress, isSecond: false },
            app,
          ),
        (error: unknown) => this.#fail(exchange, error),
      );
    this.#withBody(exchange, find);
  }

  #bringFound(call: Omit<Call, 'bucket'>, app: string | null): void {
    const { exchange } = call;
    const bucket = app === null ? null : bucketOf(app);
    if (bucket === null || this.#enter(exchange, bucket)) this.#answer(exchange, bucket, null);
    else this.#send({ ...call, bucket });
  }

  /** Reads a body that there is, in the turn in which the exchange was handed over. */
  #withBody(exchange: Exchange, then: (body: Buffer | null) => unknown): void {
    const isEmpty = Number(exchange.header('content-length') ?? 0) === 0;
    if (isEmpty && exchange.header('transfer-encoding') === undefined) then(null);
    else exchange.readBody(LIMITS.requestBodyBytes, then, (error) => sendError(exchange, error));
  }

  /**
   * Takes the addresses of the nodes whose leases have not ended. What is under way to others ends: its clients learn it as if the node
   * had closed the connections.
   */
  nodesAre(addresses: readonly string[]): void {
    this.#nodes.keep(addresses);
    this.#gathering.nodesAre(addresses);
  }

  /** Resolves when nothing waits for an answer of another node; streams go on. */
  settled(): Promise<void> {
    return this.#nodes.settled();
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
    this.#options.places?.takeSentOn(exchange.header('host'));
    const { bucket, epoch, client } = forwarded;
    if (bucket === null) {
      this.#answerPart(exchange, client);
      return;
    }
    const owner = owners.of(bucket);
    // Where the sender knows a later epoch, this node may have lost the bucket meanwhile.
    if (owner === undefined || owner.epoch < epoch || !this.#enter(exchange, bucket)) {
      this.#deny(exchange, proof, owner);
    } else if (exchange.method === 'OPTIONS') {
      // The request that it announces is on its way, and cannot be sent twice.
      setTimeout(owners.underWay.begin(bucket), LIMITS.bucketGraceMs).unref();
      exchange.send(204, {}, '');
    } else {
      exchange.clientAddress = client;
      this.#buckets.find(
        exchange,
        (requested) => {
          if ('found' in requested) this.#check(exchange, requested.found, bucket, proof);
          else this.#answer(exchange, bucket, 'files' in requested ? requested.files : null);
        },
        (error) => sendError(exchange, error),
      );
    }
  }

  #deny(exchange: Exchange, proof: string, owner: Owner | undefined): void {
    exchange.send(NOT_OWNER, { [OWNER]: this.#proofs.ofOwner(proof, owner) }, '');
  }

  /** Answers where what another node found here is still here. */
  #check(exchange: Exchange, found: Found, bucket: number, proof: string): void {
    const check = async (): Promise<void> => {
      const app = await this.#options.locate(found);
      if (app !== null && bucketOf(app) === bucket) this.#answer(exchange, bucket, null);
      else this.#deny(exchange, proof, undefined);
    };
    this.#withBody(exchange, () => check().catch((error) => this.#fail(exchange, error)));
  }

  /** Answers what all nodes are asked, and says of which buckets that is: those that were this node's from beginning to end. */
  #answerPart(exchange: Exchange, client: string): void {
    const { owners } = this.#options;
    const { own } = owners;
    exchange.clientAddress = client;
    exchange.addHeaders({ [ANSWERED_FOR]: own.toString() });
    exchange.beforeAnswer = async () => exchange.addHeaders({ [ANSWERED_FOR]: own.and(owners.own).toString() });
    if (exchange.method === 'OPTIONS') this.#tell(exchange).catch((error) => this.#fail(exchange, error));
    else this.#answer(exchange, null, null);
  }

  /** Says of which app a run is, if it is here. */
  async #tell(exchange: Exchange): Promise<void> {
    const found = this.#buckets.foundAt(exchange.path);
    const app = found && (await this.#options.locate(found));
    exchange.send(204, app === null ? {} : { [FOUND_APP]: app }, '');
  }

  /** Answers here, once the files that it changed are where another node would find them. */
  #answer(exchange: Exchange, bucket: number | null, files: FilesOf | null): void {
    const { next, storing, known } = this.#options;
    if (files !== null) exchange.beforeAnswer = storing(files);
    const begin = known?.(exchange, this.#pageOf(exchange), bucket) ?? null;
    if (begin === null || !isShort(exchange)) {
      next(exchange);
      return;
    }
    const waiting = begin();
    this.#withBody(exchange, () =>
      waiting.then(
        () => next(exchange),
        (error: unknown) => this.#fail(exchange, error),
      ),
    );
  }

  /** The app at whose origin a request is. */
  #pageOf(exchange: Exchange): string | null {
    try {
      const place = this.#options.places?.of(exchange.header('host'));
      return place?.kind === 'page' ? (place.owner?.app ?? null) : null;
    } catch {
      return null;
    }
  }

  /** Takes the body of a request for another node: in one piece where it is small, so that it can be sent to a second one. */
  #read(exchange: Exchange, bucket: number, files: FilesOf | null, read: Buffer | null): void {
    const call = { exchange, bucket, found: null, files, client: exchange.remoteAddress, isSecond: false };
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
      const done = this.#nodes.begin();
      void this.#stream({ ...call, body }).finally(done);
    }
  }

  #send(call: Call): void {
    const { exchange, bucket, client, body, isSecond } = call;
    const { owners } = this.#options;
    const owner = owners.of(bucket);
    // A stream goes to this node like to any other: here it could not be read again.
    if (owner === undefined || (owners.isHere(owner) && !isStream(body))) {
      if (owner === undefined) this.sent.ownerless++;
      if (owner === undefined) this.#wait(call, unavailable('No node has this data now.'), LIMITS.nodesWholeMs);
      else this.#wait(call, movedError(), LIMITS.nodesMovingMs);
      return;
    }
    const { address, epoch } = owner;
    const proof = this.#proofs.ofRequest(exchange, exchange.method, { bucket, epoch, client });
    this.#nodes.forward({
      exchange,
      address,
      proof,
      body,
      onAnswer: () => void this.sent.answered++,
      onOther: (said) => {
        this.sent.moved++;
        if (call.found !== null && !isSecond) {
          this.#findAgain(call, call.found);
          return;
        }
        const heard = this.#hear(bucket, proof, said);
        if (heard === 'nothing') this.#refuse(exchange, movedError());
        else if (heard === 'news' && !isSecond && !isStream(body)) this.#send({ ...call, isSecond: true });
        else this.#wait(call, movedError(), LIMITS.nodesMovingMs);
      },
      onLost: (wasSent) => {
        this.sent.lost++;
        if (wasSent) this.#refuse(exchange, lost(exchange, true));
        else this.#wait(call, lost(exchange, false), LIMITS.nodesWholeMs);
      },
    });
  }

  /**
   * Brings a request of which nothing was done again a little later, to the node that has the data then. Where it has waited for `ms` it
   * is refused, a stream at once, as it cannot be sent twice, and all at a node that is not in the cluster.
   */
  #wait({ exchange, bucket, files, body }: Call, error: SvcError, ms: number): void {
    const now = performance.now();
    const since = this.#waitsSince.get(exchange) ?? now;
    const absence = this.#absenceIn(bucket);
    if (isStream(body) || now >= since + ms || absence !== null) {
      this.#refuse(exchange, absence ?? error);
      return;
    }
    this.#waitsSince.set(exchange, since);
    const done = this.#nodes.begin();
    setTimeout(() => {
      if (!exchange.aborted) this.#bring(exchange, bucket, files, body);
      done();
    }, LIMITS.nodesAgainMs);
  }

  #findAgain(call: Call, found: Found): void {
    const { exchange } = call;
    this.#finder.find(exchange, found).then(
      (app) => this.#bringFound({ ...call, isSecond: true }, app),
      (error: unknown) => this.#fail(exchange, error),
    );
  }

  /** Sends a body that cannot be sent twice, once a node has said that it is the owner. */
  async #stream(call: Call & { body: Readable }): Promise<void> {
    const { exchange, bucket, body } = call;
    const { owners } = this.#options;
    let error = movedError();
    for (const until = performance.now() + LIMITS.nodesMovingMs; performance.now() < until && !exchange.aborted; ) {
      const owner = owners.of(bucket);
      const isServed = owner !== undefined && (owners.isOwn(bucket) || !owners.isHere(owner));
      const heard = isServed ? await this.#askOwner(call, owner) : 'known';
      if (heard === 'owner') {
        this.#send(call);
        return;
      }
      error = heard === 'lost' ? lost(exchange, false) : movedError();
      if (heard === 'nothing' || (heard !== 'news' && this.#absenceIn(bucket) !== null)) break;
      if (heard !== 'news') await wait(LIMITS.nodesAgainMs);
    }
    if (!exchange.aborted) this.#refuse(exchange, this.#absenceIn(bucket) ?? error);
    body.destroy();
  }

  /** Asks a node whether it is the owner, before anything is sent to it. */
  async #askOwner({ exchange, bucket, client }: Call, { address, epoch }: Owner) {
    const proof = this.#proofs.ofRequest(exchange, 'OPTIONS', { bucket, epoch, client });
    try {
      const said = await this.#nodes.askOwner(exchange, address, proof);
      if (said === null) return 'owner';
      this.sent.moved++;
      return this.#hear(bucket, proof, said);
    } catch {
      this.sent.lost++;
      return 'lost';
    }
  }

  /** Learns what a node says of the owner, which is nothing where it does not prove that it is a node. */
  #hear(bucket: number, proof: string, said: string): 'news' | 'known' | 'nothing' {
    const owner = this.#proofs.readOwner(proof, said);
    if (owner === undefined) return 'nothing';
    return owner !== null && this.#options.owners.hear(bucket, owner) ? 'news' : 'known';
  }

  #absenceIn(bucket: number): SvcError | null {
    return this.#options.absence?.(bucket) ?? null;
  }

  #fail(exchange: Exchange, error: unknown): void {
    this.#refuse(exchange, toSvcError(error, this.#options.log));
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

/** Whether its body can be read before it is known what it is for. */
function isShort(exchange: Exchange): boolean {
  const isSmall = Number(exchange.header('content-length') ?? 0) <= LIMITS.requestBodyBytes;
  return isSmall && exchange.header('transfer-encoding') === undefined;
}

function isStream(body: Call['body']): body is Readable {
  return body !== null && !Buffer.isBuffer(body);
}

function lost({ method }: Exchange, wasSent: boolean): SvcError {
  if (!wasSent || method === 'GET' || method === 'HEAD')
    return unavailable('The node that has this data cannot be reached; try again in a moment.');
  return unavailable(
    'The node that has this data went away; whether this was done is not known. Try again with the same idempotency key.',
  );
}
