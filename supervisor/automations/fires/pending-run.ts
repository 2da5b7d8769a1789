/** A run that is under way, before and after its handler is at work: its record, its input, and who waits for its end. */
import type { HistoryKeep } from '../../../protocol/automation.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { RunRecord } from '../../../protocol/runs.ts';
import type { LiveAutomation } from '../catalog.ts';
import { recordedValue } from '../history/run-values.ts';
import type { Fire, Outcome } from './fire.ts';
import type { FireRequest } from './fire-request.ts';
import { noUsage } from './run-nodes.ts';

/** The phases are those of `Fires`. */
export type Pending = {
  run: RunRecord;
  readonly request: FireRequest;
  /** Undefined when there is none. */
  readonly input: string | undefined;
  /** It is the first of its lane and starts as soon as it is stored, so that its row says `running` from the beginning. */
  readonly first: boolean;
  phase: 'storing' | 'waiting' | 'running' | 'ending';
  /** Set while it is `storing` and shall not run. */
  doom: Outcome | null;
  fire: Fire | null;
  keep: HistoryKeep;
  readonly ended: Promise<RunRecord>;
  resolve(run: RunRecord): void;
};

/** Its record as it is stored first. Times are milliseconds since the epoch. */
export function newRun(
  runId: string,
  { automation, trigger, parentRunId = null }: FireRequest,
  input: string | undefined,
  queuedAt: number,
): RunRecord {
  return {
    runId,
    kind: 'automation',
    ref: automation.ref,
    app: automation.app,
    automation: automation.id,
    trigger,
    parentRunId,
    state: 'queued',
    input: recordedValue(Buffer.from(input ?? '')),
    output: null,
    summary: null,
    error: null,
    queuedAt,
    startedAt: null,
    endedAt: null,
    usage: noUsage(),
    pinned: false,
  };
}

export function newPending(request: FireRequest, run: RunRecord, input: string | undefined, first: boolean): Pending {
  let resolve: (run: RunRecord) => void = () => {};
  const ended = new Promise<RunRecord>((settle) => {
    resolve = settle;
  });
  const { keep } = request.automation.manifest.history;
  return { run, request, input, first, phase: 'storing', doom: null, fire: null, keep, ended, resolve };
}

/** What the thread gets; without `input` when there is none. `now` is the time of the fire. */
export function fireBody(run: RunRecord, now: number, automation: LiveAutomation, input: string | undefined): string {
  const { ref, id, manifest } = automation;
  const { name, version } = manifest;
  const head = JSON.stringify({ runId: run.runId, now, trigger: run.trigger, automation: { ref, id, name, version } });
  return input === undefined ? head : `${head.slice(0, -1)},"input":${input}}`;
}

/** The input as JSON text; undefined when there is none. Throws `BAD_REQUEST` for what is no JSON value. */
export function inputText(input: unknown): string | undefined {
  try {
    return JSON.stringify(input);
  } catch (error) {
    throw new SvcError('BAD_REQUEST', `The input is not a JSON value: ${(error as Error).message}.`, { path: 'input' });
  }
}
