/** What each kind of bad client does, and how the gateway is known to end it. */
import { LIMITS } from '../../../protocol/limits.ts';
import { BadClient, openCrowd } from './crowd.ts';

/** Where they connect. */
type Gateway = { readonly port: number; readonly token: string };

/** Added to each limit: how coarse the edges' timers are, and a machine that is busy. */
const SLACK_MS = 12_000;
/** The native edge ends what stands still after 10 s; what moves too slowly, as the other edge does. */
export const ENDED_WITHIN_MS = LIMITS.requestTimeoutMs + SLACK_MS;
/** Between two bytes of a slow client. */
const DRIP_MS = 2000;

/** The app whose one action sends many events: it fills the buffers of readers that do not read. */
export const FLOOD = 'flood';
export const FLOOD_TABLES: readonly string[] = Array.from(
  { length: 100 },
  (_, i) => `table_with_a_rather_long_name_${i}`,
);
/** The app of the good clients. */
export const GOOD = 'good';
/** The app that pipelined calls ask. */
export const ECHO = 'echo';
/** The app with large answers. Many at once exceed its memory and end it, so nothing else asks it for anything. */
export const LARGE = 'large';
/** What its query answers: more than the system takes for a client that does not read. */
export const LARGE_BYTES = 7 * 1024 * 1024;

export type Attack = {
  readonly name: string;
  /** Within which time the gateway ends it, where that is not `ENDED_WITHIN_MS`. */
  readonly endedWithinMs?: number;
  /** What is sent at once, and the byte that is sent now and then after it. */
  greeting(gateway: Gateway): string | Buffer;
  readonly drip?: string;
};

const auth = ({ token }: Gateway) => `Host: localhost\r\nAuthorization: Bearer ${token}\r\n`;

const toolCall = (gateway: Gateway, tool: string, call: object) => {
  const body = JSON.stringify(call);
  return `POST /svc/_tool/${tool} HTTP/1.1\r\n${auth(gateway)}Content-Length: ${body.length}\r\n\r\n${body}`;
};

export const SLOW: readonly Attack[] = [
  { name: 'silent from the start', greeting: () => '' },
  {
    name: 'idle after an answer',
    endedWithinMs: LIMITS.keepAliveMs + SLACK_MS,
    greeting: () => 'GET /svc/_health HTTP/1.1\r\nHost: localhost\r\n\r\n',
  },
  {
    name: 'half a head, then nothing',
    greeting: (gateway) => `GET /svc/_apps HTTP/1.1\r\n${auth(gateway)}`,
  },
  {
    name: 'a byte of the head now and then',
    greeting: () => 'GET /svc/_health HTTP/1.1\r\nX-Slow: ',
    drip: 'a',
  },
  {
    name: '16 KiB of a body of 1 MiB, then nothing',
    greeting: (gateway) => startOfBody(gateway, 16 * 1024),
  },
  {
    name: '16 KiB of a body of 1 MiB, then a byte now and then',
    greeting: (gateway) => startOfBody(gateway, 16 * 1024),
    drip: ' ',
  },
];

/** Opens so many; a drip goes to each until it is ended. */
export async function openSlow(gateway: Gateway, { greeting, drip }: Attack, count: number): Promise<BadClient[]> {
  const bytes = greeting(gateway);
  const crowd = await openCrowd(gateway.port, count, (client) => client.write(bytes));
  const timer = setInterval(() => {
    const open = crowd.filter(({ socket }) => !socket.closed);
    for (const client of open) client.write(drip ?? '');
    if (drip === undefined || open.length === 0) clearInterval(timer);
  }, DRIP_MS);
  timer.unref();
  return crowd;
}

/** The head of a call, and the first bytes of its body, which never ends. */
export function startOfBody(gateway: Gateway, bytes: number): Buffer {
  const head = `POST /svc/_tool/svc_read HTTP/1.1\r\n${auth(gateway)}Content-Length: ${LIMITS.requestBodyBytes}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.alloc(bytes, ' ')]);
}

export function streamRequest(gateway: Gateway, app: string): string {
  return `GET /svc/${app}/_changes HTTP/1.1\r\n${auth(gateway)}\r\n`;
}

export function largeRequest(gateway: Gateway): string {
  return toolCall(gateway, 'svc_read', { app: LARGE, query: 'get' });
}

/** Clients that go away at each point of a request, politely and not. Resolves when all are gone. */
export async function leaveEverywhere(gateway: Gateway, count: number): Promise<void> {
  const stories: string[] = [
    '',
    'GET /svc/_apps HT',
    `GET /svc/_apps HTTP/1.1\r\n${auth(gateway)}`,
    `GET /svc/_apps HTTP/1.1\r\n${auth(gateway)}\r\n`,
    startOfBody(gateway, 5000).toString(),
    toolCall(gateway, 'svc_read', { app: GOOD, query: 'count', input: {} }),
    toolCall(gateway, 'svc_write', { app: FLOOD, action: 'go', input: {} }),
    largeRequest(gateway),
    streamRequest(gateway, FLOOD),
    `POST /svc/_apps/nobody/upload HTTP/1.1\r\n${auth(gateway)}Content-Length: 1000000\r\n\r\n${'x'.repeat(70_000)}`,
  ];
  for (const story of stories) {
    const crowd = await openCrowd(gateway.port, count, (client) => client.write(story), false);
    await new Promise((resolve) => setImmediate(resolve));
    for (const [i, { socket }] of crowd.entries()) {
      if (i % 2 === 0) socket.resetAndDestroy();
      else socket.destroy();
    }
    await Promise.all(crowd.map(({ ended }) => ended));
  }
}

/** Calls sent without waiting for answers, fast ones behind slow ones; the texts of the answers as they came. */
export async function pipeline(gateway: Gateway, count: number): Promise<string[]> {
  const client = new BadClient(gateway.port, 0, true);
  const calls = Array.from({ length: count }, (_, i) =>
    i % 2 === 0
      ? toolCall(gateway, 'svc_read', { app: ECHO, query: 'say', input: { text: `answer ${i}.` } })
      : `GET /svc/answer-${i}. HTTP/1.1\r\n${auth(gateway)}\r\n`,
  );
  client.write(calls.join(''));
  await new Promise<void>((resolve) => {
    client.socket.on('close', resolve).on('data', () => {
      if ([...client.received.matchAll(/HTTP\/1\.1 \d/g)].length === count) resolve();
    });
  });
  client.socket.destroy();
  return client.received.split(/(?=HTTP\/1\.1 \d)/).filter((text) => text !== '');
}
