/** For tests: a real SQLite writer that can be killed and replaced, a ledger on it, and runs to record. */
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext } from 'node:test';
import type { RunNode, RunRecord } from '../protocol/automations/runs.ts';
import { DbClient } from '../protocol/wire/db-client.ts';
import { Kind } from '../protocol/wire/frames.ts';
import { Link } from '../protocol/wire/link.ts';
import { RunLedger } from '../supervisor/runs/ledger.ts';
import { firstRunIdAt } from '../supervisor/runs/retention.ts';
import { OneRuntimeDatabase } from '../supervisor/runtime/runtime-databases.ts';
import { WriterProcess } from './writer-process.ts';

export const NOW = 1_700_000_000_000;
export const NO_USAGE = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: null };

export type TestWriter = {
  readonly folder: string;
  client(name: string): DbClient;
  /** Ends the writer at once, and starts another in its place. */
  replace(): Promise<void>;
};

/** One process for all tests of a file, one after another; it ends with the file. */
let started: Promise<WriterProcess> | null = null;
after(async () => {
  const writer = await started;
  await writer?.end();
  if (writer) rmSync(writer.folder, { recursive: true });
});

/** The writer with a folder for the databases of this test, whose clients end with it. */
export async function startWriter(t: TestContext): Promise<TestWriter> {
  started ??= new WriterProcess(mkdtempSync(join(tmpdir(), 'ledger-'))).start();
  const writer = await started;
  const folder = mkdtempSync(join(writer.folder, 'test-'));
  return {
    folder,
    client: (name) => {
      const ticket = writer.ticketFor(name, folder);
      const client = new DbClient((handlers, connectionId) => {
        const link = new Link(connect(writer.socket), handlers);
        link.send([Kind.hello, ticket, connectionId]);
        return link;
      });
      t.after(() => client.end());
      return client;
    },
    replace: async () => {
      await writer.kill();
      await writer.start();
    },
  };
}

/** An open ledger, and clients to read its database. `warnings` is its log. */
export async function startLedger(t: TestContext) {
  const writer = await startWriter(t);
  const clock = { now: NOW };
  const warnings: string[] = [];
  const runtime = writer.client('runtime');
  const analytics = writer.client('analytics');
  const make = (): RunLedger =>
    new RunLedger({
      runtime: new OneRuntimeDatabase(runtime),
      analytics,
      putAnalyticsAside: () => Promise.reject(new Error('Nothing is damaged.')),
      now: () => clock.now,
      log: { warn: (_details: unknown, message?: string) => void warnings.push(String(message)) },
    });
  const ledger = make();
  await ledger.open();
  return { writer, ledger, runtime, analytics, clock, warnings, again: make };
}

let made = 0;

/** An id as fires make them: later ones are greater. */
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
