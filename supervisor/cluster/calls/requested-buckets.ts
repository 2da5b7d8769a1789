/** Finds the bucket of the data that a request is about, by its route, host, query or body (specification, "Calls between nodes"). */
import { BUCKETS, bucketOf, bucketOfWorkspace, GATEWAY_BUCKET } from '../../../protocol/buckets.ts';
import type { SvcError } from '../../../protocol/errors.ts';
import { digestOfLabel } from '../../../protocol/http/origins.ts';
import { isAppId, isChosenId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { pathsOf } from '../../../protocol/routes/row.ts';
import { rowsOfFiles, type Subject, subjectsOf } from '../../../protocol/routes/subjects.ts';
import { membersOf } from '../../../protocol/rules/json-text.ts';
import type { Subject as FilesOf } from '../../../storage/shared-files/subjects.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { Places } from '../../http/access/places.ts';
import { type Matched, type Params, Router } from '../../http/router.ts';

/** The members of a body that may name an app or a workspace. */
const NAMES = ['app', 'ref', 'id', 'sessionId'];

/**
 * `bucket` is null for what the node that was asked answers: nobody's data, what no route takes, and what is about the apps of all nodes.
 * `files` are those that the request may change.
 */
export type Requested = { readonly bucket: number | null; readonly files: FilesOf | null };

type SubjectRoute = Matched & { subject: Subject; changesFiles: boolean };
type Named = { readonly kind: 'app' | 'workspace'; readonly id: string };
type Members = ReadonlyMap<string, Uint8Array>;

export class RequestedBuckets {
  readonly #places: Places | null;
  readonly #router: Router<SubjectRoute>;
  readonly #ofApps = new Map<string, number>();

  /** `places` is null where no Host is the origin of an app. */
  constructor(places: Places | null) {
    this.#places = places;
    const changing = rowsOfFiles();
    const routes = [...subjectsOf()].flatMap(([row, subject]) =>
      pathsOf(row).map((path): SubjectRoute => {
        const changesFiles = changing.has(row);
        return { method: row.method, path, needs: 'anyone', subject, changesFiles };
      }),
    );
    this.#router = new Router(routes);
  }

  /**
   * Calls `found` with what the request is about, and with the body where it was read for that. `refused` gets the error of `readBody`.
   * Must be called in the turn in which the exchange was handed over; either callback may run before it returns.
   */
  find(
    exchange: Exchange,
    found: (requested: Requested, body: Buffer | null) => void,
    refused: (error: SvcError) => void,
  ): void {
    const ofPage = this.#ofPage(exchange);
    if (ofPage !== undefined) {
      found({ bucket: ofPage, files: null }, null);
      return;
    }
    const match = this.#router.match(exchange.method, exchange.path);
    if ('error' in match) {
      found({ bucket: null, files: null }, null);
      return;
    }
    const { params, route } = match;
    const { subject } = route;
    if (typeof subject === 'string' || subject.in !== 'body') {
      found(this.#requested(route, exchange, params, null), null);
      return;
    }
    const onBody = (body: Buffer) => found(this.#requested(route, exchange, params, namesIn(body)), body);
    exchange.readBody(LIMITS.requestBodyBytes, onBody, refused);
  }

  /** For what is asked at the origin of a page and is no route; undefined for others. */
  #ofPage(exchange: Exchange): number | null | undefined {
    if (this.#places === null || this.#router.claims(exchange.path)) return undefined;
    try {
      const place = this.#places.of(exchange.header('host'));
      if (place.kind !== 'page') return undefined;
      // A bucket is the first 12 bits.
      return place.owner !== null
        ? this.#ofApp(place.owner.app)
        : Number.parseInt(digestOfLabel(place.label).slice(0, 3), 16);
    } catch {
      // It is no host of this gateway, which answers that.
      return null;
    }
  }

  #requested(route: SubjectRoute, exchange: Exchange, params: Params, members: Members | null): Requested {
    const named = this.#named(route.subject, exchange, params, members);
    if (named === null) return { bucket: null, files: null };
    if (named === 'gateway') return { bucket: GATEWAY_BUCKET, files: null };
    const bucket = named.kind === 'app' ? this.#ofApp(named.id) : bucketOfWorkspace(named.id);
    return { bucket, files: route.changesFiles ? named : null };
  }

  /** The app or workspace that the request names; null for nobody's data. */
  #named(subject: Subject, exchange: Exchange, params: Params, members: Members | null): Named | 'gateway' | null {
    if (subject === 'gateway') return subject;
    if (typeof subject === 'string') return null;
    const { of, name, without } = subject;
    const given =
      subject.in === 'path'
        ? params[name]
        : subject.in === 'query'
          ? new URLSearchParams(exchange.query).get(name)
          : textIn(members, name);
    if (given === undefined || given === null) return this.#named(without, exchange, params, members);
    const [id = ''] = name === 'ref' ? given.split('/', 1) : [given];
    const isId = of === 'app' ? isAppId(id) : isChosenId(id);
    return isId ? { kind: of, id } : null;
  }

  /** A hash costs a call as much as the rest of what is done here. */
  #ofApp(app: string): number {
    let bucket = this.#ofApps.get(app);
    if (bucket === undefined) {
      if (this.#ofApps.size >= BUCKETS) this.#ofApps.clear();
      bucket = bucketOf(app);
      this.#ofApps.set(app, bucket);
    }
    return bucket;
  }
}

/** The names in a JSON body; null where it is none, which its route answers. */
function namesIn(body: Buffer): Members | null {
  try {
    return membersOf(body, NAMES);
  } catch {
    return null;
  }
}

function textIn(members: Members | null, name: string): string | null {
  const json = members?.get(name);
  if (json === undefined) return null;
  try {
    const value: unknown = JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.length).toString());
    return typeof value === 'string' ? value : null;
  } catch {
    return null;
  }
}
