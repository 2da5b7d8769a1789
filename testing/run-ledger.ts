/** For tests: a real SQLite writer that can be killed and replaced, a ledger on it, and runs to record. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Kind } from '../protocol/frames.ts';
import type { RunNode, RunRecord } from '../protocol/runs.ts';
import { DbClient } from '../protocol/wire/db-client.ts';
import { Link } from '../protocol/wire/link.ts';
import { signTicket } from '../protocol/wire/ticket.ts';
import { RunLedger } from '../supervisor/automations/history/ledger.ts';
import { firstRunIdAt } from '../supervisor/automations/history/retention.ts';

const ENTRY = fileURLToPath(new URL('../dist/writer.js', import.meta.url));

export const NOW = 1_700_000_000_000;
export const NO_USAGE = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: 0 };

export type TestWriter = {
  readonly folder: string;
  client(name: string): DbClient;
  /** Ends the writer at once, and starts another in its place. */
  replace(): Promise<void>;
};

/** Runs until the test ends. */
export async function startWriter(t: TestContext): Promise<TestWriter> {
  const folder = mkdtempSync(join(tmpdir(), 'ledger-'));
  const key = randomBytes(32);
  const supervisorSocket = join(folder, 'supervisor.sock');
  const writerSocket = join(folder, 'writer.sock');
  const clients: DbClient[] = [];
  const links: Link[] = [];
  let ready = (): void => {};
  let writer: ChildProcess;
  const server = createServer((socket) => {
    const onFrame = (frame: unknown[]): void => {
      if (frame[0] === Kind.ready) ready();
    };
    links.push(new Link(socket, { onFrame, onClose: () => {} }));
  }).listen(supervisorSocket);

  const start = async (): Promise<void> => {
    const isReady = new Promise<void>((resolve) => {
      ready = resolve;
    });
    writer = spawn(process.execPath, [ENTRY], { stdio: ['pipe', 'ignore', 'ignore'], env: {} });
    const bootstrap = {
      supervisorSocket,
      writerSocket,
      ticket: signTicket({ role: 'writer', name: 'writer' }, key),
      watchTicket: signTicket({ role: 'writer-watch', name: 'writer' }, key),
      key: key.toString('hex'),
      durability: 'normal',
      only: null,
      elsewhere: [],
      begun: null,
    };
    writer.stdin?.write(`${JSON.stringify(bootstrap)}\n`);
    await isReady;
  };
  const kill = async (): Promise<void> => {
    const exit = once(writer, 'exit');
    writer.kill('SIGKILL');
    await exit;
  };

  await start();
  t.after(async () => {
    for (const client of clients) client.end();
    await kill();
    for (const link of links) link.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  return {
    folder,
    client: (name) => {
      const ticket = { role: 'database', name, file: join(folder, `${name}.sqlite`), maintain: false } as const;
      const client = new DbClient((handlers, session) => {
        const link = new Link(connect(writerSocket), handlers);
        link.send([Kind.hello, signTicket(ticket, key), session]);
        return link;
      });
      clients.push(client);
      return client;
    },
    replace: async () => {
      await kill();
      await start();
    },
  };
}

/** A ledger that is open, and clients to look behind it. `warnings` is what it logged. */
export async function startLedger(t: TestContext) {
  const writer = await startWriter(t);
  const clock = { now: NOW };
  const warnings: string[] = [];
  const runtime = writer.client('runtime');
  const analytics = writer.client('analytics');
  const make = (): RunLedger =>
    new RunLedger({
      runtime,
      analytics,
      now: () => clock.now,
      log: { warn: (_details: unknown, message?: string) => void warnings.push(String(message)) },
    });
  const ledger = make();
  await ledger.open();
  return { writer, ledger, runtime, analytics, clock, warnings, again: make };
}

let made = 0;

/** An id as the fires make them: the later, the greater. */
export function runIdAt(time: number): string {
  const n = (++made).toString(16).padStart(15, '0');
  return `${firstRunIdAt(time)}-7${n.slice(0, 3)}-8${n.slice(3, 6)}-000${n.slice(6)}`;
}

export function queuedRun(changes: Partial<RunRecord> = {}): RunRecord {
  const app = changes.app ?? 'todos';
  const automation = changes.automation ?? 'digest';
  const queuedAt = changes.queuedAt ?? NOW;
  return {
    runId: runIdAt(queuedAt),
    kind: 'automation',
    ref: `${app}/${automation}`,
    app,
    automation,
    trigger: { kind: 'manual', origin: null },
    parentRunId: null,
    state: 'queued',
    input: null,
    output: null,
    summary: null,
    error: null,
    queuedAt,
    startedAt: null,
    endedAt: null,
    usage: NO_USAGE,
    pinned: false,
    ...changes,
  };
}

export function ended(run: RunRecord, changes: Partial<RunRecord> = {}): RunRecord {
  return { ...run, state: 'ok', startedAt: run.queuedAt + 1, endedAt: run.queuedAt + 2, ...changes };
}

export function nodeOfRun(run: RunRecord, ordinal: number, changes: Partial<RunNode> = {}): RunNode {
  return {
    runId: run.runId,
    ordinal,
    batchId: ordinal,
    kind: 'tool',
    name: 'svc_read',
    args: { app: 'todos' },
    output: [1, 2],
    ok: true,
    error: null,
    startedAt: NOW + ordinal,
    endedAt: NOW + ordinal + 1,
    usage: NO_USAGE,
    ...changes,
  };
}
