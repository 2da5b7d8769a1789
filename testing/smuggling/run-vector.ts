/** Sends one vector to one place, and decides from the outcome whether it was parsed as two requests. */
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Vector, Way } from './vectors.ts';
import { markingRequest, swallowingRequest, WITNESS } from './witness.ts';

/** A connection that is silent for this long, after an answer or without one, is considered done. */
const SILENT_MS = { answered: 50, unanswered: 300 };
/** The same if a missing second answer matters, for a busy machine. */
const SURELY_SILENT_MS = { answered: 2000, unanswered: 2000 };

/** Where vectors are sent. */
export type Target = {
  readonly edge: 'uws' | 'node';
  readonly way: Way;
  readonly port: number;
  readonly token: string;
  /** Whether the first request of a vector has the token; the inner one, and the checking ones, always have it. */
  readonly isStranger?: boolean;
};

export type Outcome = {
  /** The sender's view: the status of its first answer, `closed` without one, or `silent` if it waits for more. */
  seen: string;
  /** Violations, in sentences. */
  violations: string[];
  /** Keys of rows that only a smuggled request would write, and what it means when they are there. */
  forbidden: Map<string, string>;
};

type Exchanged = { statuses: number[]; closed: boolean };

/**
 * `key` must be new. The caller checks for forbidden rows at the end (`rowsOf`), because there is no event for a
 * request that did not run.
 */
export async function runVector(target: Target, vector: Vector, key: string): Promise<Outcome> {
  const auth = `Authorization: Bearer ${target.token}`;
  const outer = target.isStranger ? 'X-Stranger: yes' : auth;
  const bytesAround = (inner: string) => Buffer.from(vector.bytes(inner, outer), 'latin1');
  const forbidden = new Map<string, string>();
  const violations: string[] = [];

  const send = async (how: string, isSplit: boolean, pieces: Buffer[], row: string): Promise<Exchanged> => {
    const exchanged = await exchange(target.port, pieces, isSplit ? SURELY_SILENT_MS : SILENT_MS);
    const answered = exchanged.statuses.slice(1).filter((status) => status < 400);
    if (answered.length > 0 && !isSplit) violations.push(`${how}: its second answer is ${answered[0]}`);
    // If the first reader parses two requests, it must know it: a missing answer would go to another client. Without
    // any, it still waits for the first one.
    if (!isSplit || exchanged.statuses.length === 1) forbidden.set(row, `${how}: the request inside ran`);
    violations.push(...(await disturbed(target)).map((what) => `${how}: ${what}`));
    return exchanged;
  };

  const isSplit = vector.readAsTwoBy?.includes(target.way) ?? false;
  const whole = await send(
    'sent at once',
    isSplit,
    [bytesAround(markingRequest(`${key} whole`, auth))],
    `${key} whole`,
  );
  if (target.way === 'direct') {
    const bytes = bytesAround(markingRequest(`${key} pieces`, auth));
    const isSplitHere = target.edge === 'uws' && (vector.readAsTwoBy?.includes('uws, in pieces') ?? false);
    await send('sent in pieces', isSplitHere, inPieces(bytes), `${key} pieces`);
  } else {
    await send('with half a request inside', isSplit, [bytesAround(swallowingRequest(auth))], `${key} half`);
  }
  return { seen: String(whole.statuses[0] ?? (whole.closed ? 'closed' : 'silent')), violations, forbidden };
}

/**
 * Sends damaged bytes, whose right reading is unknown: a first reader may correctly find two requests in them. But then
 * its client gets an answer to each, and no other client is affected. Asks `direct` what ran, because a fooled proxy may
 * give us the answer of another client. Returns violations, in sentences.
 */
export async function exchangeMutant(
  target: Target,
  direct: Target,
  bytes: Vector['bytes'],
  key: string,
): Promise<string[]> {
  const auth = `Authorization: Bearer ${target.token}`;
  let text = '';
  const send = async (row: string, silentMs: typeof SILENT_MS, isCut = false): Promise<number[]> => {
    const inner = markingRequest(row, auth);
    text = bytes(inner, auth);
    if (isCut) text = text.slice(0, text.indexOf(inner) + inner.length);
    return (await exchange(target.port, [Buffer.from(text, 'latin1')], silentMs)).statuses;
  };
  const isFooled = async (row: string, silentMs: typeof SILENT_MS): Promise<boolean> =>
    (await send(row, silentMs)).length === 1 && (await rowsOf(direct)).has(row);
  const looksFooled = await isFooled(key, SILENT_MS);
  const violations = await disturbed(target);
  if (looksFooled && (await isFooled(`${key}, again`, SURELY_SILENT_MS))) {
    const sent = text;
    // Malformed bytes after the second request end the connection before its answer: without them there are two.
    const isExplained = (await send(`${key}, cut`, SURELY_SILENT_MS, true)).length === 2;
    text = sent;
    if (!isExplained) violations.push(`the request inside ran, and its sender got one answer`);
  }
  return violations.map((what) => `${what}; it sent ${JSON.stringify(text.replace(target.token, '…'))}`);
}

/** The keys of all requests that ran. */
export async function rowsOf(target: Target): Promise<Set<string>> {
  const { body } = await ask(target, { app: WITNESS, query: 'ran' });
  return new Set((JSON.parse(body) as { data: string[] }).data);
}

let asked = 0;

/** The effects on other clients that send well-formed requests now. */
async function disturbed(target: Target): Promise<string[]> {
  const what: string[] = [];
  // Two, because a proxy may hold more than one connection to the gateway.
  for (let i = 0; i < (target.way === 'direct' ? 1 : 2); i++) {
    asked += 1;
    const text = `innocent ${asked}.`;
    const { status, body } = await ask(target, { app: WITNESS, query: 'echo', input: { text } });
    if (status !== 200 || !body.includes(text))
      what.push(`another client was answered ${status} ${body.slice(0, 200)}`);
  }
  return what;
}

/** A query on a separate connection; status 0 if the connection failed. */
function ask({ port, token }: Target, tool: object): Promise<{ status: number; body: string }> {
  return new Promise((resolve) => {
    const text = JSON.stringify(tool);
    const headers = { authorization: `Bearer ${token}`, 'content-length': text.length, connection: 'close' };
    const options = { port, host: '127.0.0.1', method: 'POST', path: '/svc/_tool/svc_read', headers, agent: false };
    const fail = (error: Error) => resolve({ status: 0, body: error.message });
    const req = request(options, (res) => {
      let body = '';
      res.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      res.on('error', fail).on('end', () => resolve({ status: res.statusCode ?? 0, body }));
    });
    req.on('error', fail).end(text);
  });
}

/** Sends the pieces one after the other, and reads until the connection is closed or silent. */
function exchange(port: number, pieces: Buffer[], silentMs = SILENT_MS): Promise<Exchanged> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    let received = '';
    let timer: NodeJS.Timeout;
    const finish = (closed: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ statuses: statusesIn(received), closed });
    };
    const finishWhenSilent = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => finish(false), ms);
    };
    finishWhenSilent(silentMs.unanswered);
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      finishWhenSilent(silentMs.answered);
    });
    socket.on('error', () => {});
    socket.on('close', () => finish(true));
    void write(socket, pieces);
  });
}

async function write(socket: Socket, pieces: Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (!socket.writable) return;
    await new Promise<void>((done) => socket.write(piece, () => done()));
    await nextTurn();
  }
}

/** Cut inside the head, after it, and inside the rest, so that a parser gets each part separately. */
export function inPieces(bytes: Buffer): Buffer[] {
  const head = bytes.indexOf('\r\n\r\n') + 4;
  const cuts = [20, Math.max(20, Math.floor(head / 2)), head, Math.floor((head + bytes.length) / 2), bytes.length];
  return cuts.map((cut, i) => bytes.subarray(cuts[i - 1] ?? 0, cut)).filter((piece) => piece.length > 0);
}

/** The final answers. No body of the gateway or of a proxy holds a status line. */
function statusesIn(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.[01] (\d{3})/g)]
    .map((match) => Number(match[1]))
    .filter((status) => status >= 200);
}
