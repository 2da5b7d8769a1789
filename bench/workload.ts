/** What a load scenario asks of each server, and the HTTP text of it. */
import { APP } from './bench-app.ts';
import type { Durability, Operation } from './notes.ts';

/** One call. A body that is no Buffer travels as JSON. */
export type Request = {
  method: 'GET' | 'POST';
  path: string;
  body?: object | Buffer;
  headers?: Record<string, string>;
};

export type Workload = {
  scenario: string;
  /** One sentence, in which `{n}` stands for the number of requests in flight. */
  question: string;
  /** Of what is written; null when nothing is. */
  durability: Durability | null;
  /** To the gateway and the bare edge; all have answers of the same form and about the same size. */
  requests: Request[];
  /** What the gateway itself is asked in rounds of its own, to be measured beside. */
  beside?: { name: string; requests: Request[] };
  /** The same to the plain server. */
  plain: Request[];
  /** Event streams open meanwhile. */
  subscribers?: number;
  /** What those of the gateway follow, other than changes: a live query of one row. */
  live?: Request;
  /** Requests in flight, where those of the command line make no sense. */
  connections?: number[];
  /** Apps to install besides the usual one. */
  apps?: string[];
};

export const CHANGES: Request = { method: 'GET', path: `/svc/${APP}/_changes` };
export const PLAIN_CHANGES: Request = { method: 'GET', path: `/${APP}/changes` };

export function tool(name: string, body: object): Request {
  return { method: 'POST', path: `/svc/_tool/${name}`, body };
}

/** A request of the plain server for an operation of its store. */
export function plainRequest(operation: Operation, body: object, app = APP): Request {
  return { method: 'POST', path: `/${app}/${operation}`, body };
}

/** The bytes to send, head and body. Without a token the headers of the request say who asks. */
export function httpBytes({ method, path, body, headers = {} }: Request, token: string | null): Buffer {
  const content = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  const lines = Object.entries({
    host: '127.0.0.1',
    ...(token !== null && { authorization: `Bearer ${token}` }),
    ...(content && { 'content-type': contentType(body), 'content-length': content.length }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  return content ? Buffer.concat([head, content]) : head;
}

export function contentType(body: Request['body']): string {
  return Buffer.isBuffer(body) ? 'application/gzip' : 'application/json';
}
