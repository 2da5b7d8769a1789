/** Finds the bucket of the data that a request is about, by its route, host, query or body (specification, "Calls between nodes"). */
import { BUCKETS, bucketOf, GATEWAY_BUCKET } from '../../../protocol/buckets.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { digestOfLabel } from '../../../protocol/http/origins.ts';
import { isAppId, isChosenId, workspacePart } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { pathsOf, type RouteRow } from '../../../protocol/routes/row.ts';
import {
  type FoundSubject,
  isNamed,
  rowsOfFiles,
  type Subject,
  subjectsOf,
} from '../../../protocol/routes/subjects.ts';
import { parseTrashed } from '../../../storage/apps/trash.ts';
import type { Subject as FilesOf } from '../../../storage/shared-files/subjects.ts';
import type { Exchange } from '../../edge/edge.ts';
import { isOfAgent } from '../../http/access/agent-tokens.ts';
import type { Places } from '../../http/access/places.ts';
import { type Matched, type Params, Router } from '../../http/router.ts';
import { lookAtCall } from '../../routes/requests.ts';
import { type Members, membersIn, textIn } from './body-members.ts';
import { subjectOfMessage } from './message-subjects.ts';

/** The members of a body that may name an app. */
const NAMES = ['app', 'ref', 'id', 'templateId'];
/** Those of a message of MCP. */
const MESSAGE = ['method', 'id', 'params'];

/** A run, the address of a webhook or a workspace, and of which app it is has to be found. */
export type Found = { readonly of: FoundSubject['of']; readonly id: string };

/**
 * What a request is about. `bucket` is null for what the node that was asked answers: nobody's data, and what no route takes; `files` are
 * those that the request may change. `every` is the route of a request about the apps of all nodes. `refused` is what no node can do.
 */
export type Requested =
  | { readonly bucket: number | null; readonly files: FilesOf | null }
  | { readonly found: Found }
  | { readonly every: RouteRow }
  | { readonly refused: SvcError };

type SubjectRoute = Matched & {
  row: RouteRow;
  subject: Subject;
  /** Whose files it may change: those of the app, or what the workspace has of it. */
  changes: FilesOf['kind'] | null;
};

/** What these change is what a workspace has of an app. */
const IN_WORKSPACE = /^\/svc\/_(?:sessions|draft)\/:sid\/(?!publish$)/;

/** Members of a body, of which those in `NAMES` count; null where it is no object. */
type Given = Readonly<Record<string, unknown>> | null;

const HERE: Requested = { bucket: null, files: null };
const OF_GATEWAY: Requested = { bucket: GATEWAY_BUCKET, files: null };

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
        const changes = !changing.has(row) ? null : IN_WORKSPACE.test(path) ? 'workspace' : 'app';
        return { method: row.method, path, needs: 'anyone', row, subject, changes };
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
      found(HERE, null);
      return;
    }
    const { params, route } = match;
    const { subject } = route;
    const isInBody = subject === 'message' ? exchange.method === 'POST' : isNamed(subject) && subject.in === 'body';
    if (!isInBody) {
      found(this.#requested(route, subject, exchange, params, null), null);
      return;
    }
    const onBody = (body: Buffer) => {
      const requested =
        subject === 'message'
          ? this.#ofMessage(route, exchange, membersIn(body, MESSAGE))
          : this.#requested(route, subject, exchange, params, givenIn(body));
      found(requested, body);
    };
    exchange.readBody(LIMITS.requestBodyBytes, onBody, refused);
  }

  /** The run or address of a webhook that a path is about, with any method; null for none. */
  foundAt(path: string): Found | null {
    for (const method of ['GET', 'POST']) {
      const match = this.#router.match(method, path);
      if ('error' in match) continue;
      const { subject } = match.route;
      if (isFound(subject)) return foundIn(subject, match.params);
    }
    return null;
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

  #requested(route: SubjectRoute, subject: Subject, exchange: Exchange, params: Params, body: Given): Requested {
    if (subject === 'gateway') return OF_GATEWAY;
    if (subject === 'every') return { every: route.row };
    if (subject === 'message') return this.#ofMessage(route, exchange, null);
    if (subject === 'any') return HERE;
    if (subject.of === 'whole') return { refused: notInCluster(subject.instead) };
    if (isFound(subject)) return { found: foundIn(subject, params) };
    const { of, name, without } = subject;
    const given =
      subject.in === 'path'
        ? params[name]
        : subject.in === 'query'
          ? new URLSearchParams(exchange.query).get(name)
          : body?.[name];
    if (typeof given !== 'string') return this.#requested(route, without, exchange, params, body);
    const id = of === 'trashed' ? parseTrashed(given)?.app : name === 'ref' ? given.split('/', 1)[0] : given;
    const bucket = this.#ofApp(id ?? '');
    return bucket === null || id === undefined ? HERE : { bucket, files: filesOf(route, id, params) };
  }

  #ofMessage(route: SubjectRoute, exchange: Exchange, members: Members | null): Requested {
    // The token of an agent is known where its turn runs, and good for the app that is there.
    if (isOfAgent(exchange)) return HERE;
    const about = subjectOfMessage(members);
    if (about === 'gateway') return OF_GATEWAY;
    if (about === 'every') return { every: route.row };
    if (typeof about === 'number') return { bucket: about, files: null };
    const bucket = this.#ofApp(about.app);
    return bucket === null ? OF_GATEWAY : { bucket, files: null };
  }

  /** Null for what is no id. A hash costs a call as much as the rest of what is done here. */
  #ofApp(app: string): number | null {
    let bucket = this.#ofApps.get(app);
    if (bucket === undefined) {
      if (!isAppId(app)) return null;
      if (this.#ofApps.size >= BUCKETS) this.#ofApps.clear();
      bucket = bucketOf(app);
      this.#ofApps.set(app, bucket);
    }
    return bucket;
  }
}

/** What a request to this route may change of an app's files. */
function filesOf({ changes }: SubjectRoute, app: string, { sid = '' }: Params): FilesOf | null {
  if (changes === null) return null;
  return changes === 'workspace' && isChosenId(sid)
    ? { kind: 'workspace', id: workspacePart(sid, app) }
    : { kind: 'app', id: app };
}

/** Small ones are parsed once for this and the route. */
function givenIn(body: Buffer): Given {
  if (body.length <= LIMITS.callParsedBytes) return lookAtCall(body);
  const members = membersIn(body, NAMES);
  return Object.fromEntries(NAMES.map((name) => [name, textIn(members, name)]));
}

function isFound(subject: Subject): subject is FoundSubject {
  return (
    typeof subject !== 'string' && (subject.of === 'run' || subject.of === 'webhook' || subject.of === 'workspace')
  );
}

function foundIn({ of, name }: FoundSubject, params: Params): Found {
  const given = params[name] ?? '';
  // The rest of a path begins with a slash.
  return { of, id: name === '*' ? given.slice(1) : given };
}

function notInCluster(instead: string): SvcError {
  return new SvcError('NOT_IN_CLUSTER', `In a cluster no node has the apps of all others: ${instead}.`);
}
