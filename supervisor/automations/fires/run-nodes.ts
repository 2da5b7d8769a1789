/** The nodes of one run: every call of `ctx.tool` and `ctx.agent`, counted, told to followers, and recorded as it ends. */
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { RunNode, Usage } from '../../../protocol/runs.ts';
import { recordedValue } from '../history/run-values.ts';
import type { Ledger, RunPublisher } from './fire-request.ts';

export type RunNodesOptions = {
  runId: string;
  ledger: Pick<Ledger, 'node'>;
  events: RunPublisher;
  /** Milliseconds since the epoch. */
  now(): number;
};

const EMPTY = new Uint8Array(0);
/** Characters of a node's name that are recorded. */
const NAME_CHARS = 200;

export class RunNodes {
  /** What all nodes used, those that ended and those under way. */
  readonly usage: Usage = noUsage();
  readonly #options: RunNodesOptions;
  readonly #open = new Set<OpenNode>();
  #ordinal = 0;
  #batchId = 0;

  constructor(options: RunNodesOptions) {
    this.#options = options;
  }

  /** Throws `OVERLOADED` when the run has made, or has under way, as many calls as it may. `args` is JSON text. */
  begin(kind: RunNode['kind'], name: string, args: Uint8Array): OpenNode {
    if (this.#ordinal >= LIMITS.runNodes) {
      throw new SvcError('OVERLOADED', `A run may make at most ${LIMITS.runNodes} calls of ctx.tool and ctx.agent.`);
    }
    if (this.#open.size >= LIMITS.runNodesAtOnce) {
      throw new SvcError(
        'OVERLOADED',
        `${LIMITS.runNodesAtOnce} calls of ctx.tool and ctx.agent are already running; await some of them first.`,
      );
    }
    // Whatever begins while another call is under way is of its batch.
    if (this.#open.size === 0) this.#batchId++;
    const start = {
      runId: this.#options.runId,
      ordinal: ++this.#ordinal,
      batchId: this.#batchId,
      kind,
      name: name.slice(0, NAME_CHARS),
      args: recordedValue(args),
      startedAt: this.#options.now(),
    };
    const node = new OpenNode(start, this.#options, this.usage, () => this.#open.delete(node));
    this.#open.add(node);
    this.#options.events.publish({ type: 'node.start', ...start });
    return node;
  }

  /** The run is over: what is still under way ends with this error. */
  endAll(error: ErrorBody): void {
    for (const node of [...this.#open]) node.fail(error);
  }
}

type NodeStart = Omit<RunNode, 'output' | 'ok' | 'error' | 'endedAt' | 'usage'>;

/** A call under way. Once it has ended, nothing more is taken of it. */
export class OpenNode {
  readonly ordinal: number;
  readonly #start: NodeStart;
  readonly #options: RunNodesOptions;
  readonly #usage: Usage = noUsage();
  readonly #runUsage: Usage;
  readonly #onEnd: () => void;
  #ended = false;

  constructor(start: NodeStart, options: RunNodesOptions, runUsage: Usage, onEnd: () => void) {
    this.ordinal = start.ordinal;
    this.#start = start;
    this.#options = options;
    this.#runUsage = runUsage;
    this.#onEnd = onEnd;
  }

  delta(delta: string): void {
    if (this.#ended) return;
    this.#options.events.publish({ type: 'node.delta', runId: this.#start.runId, ordinal: this.ordinal, delta });
  }

  used(usage: Partial<Usage>): void {
    if (this.#ended) return;
    for (const member of Object.keys(usage) as (keyof Usage)[]) {
      this.#usage[member] += usage[member] ?? 0;
      this.#runUsage[member] += usage[member] ?? 0;
    }
  }

  /** `output` is JSON text. */
  end(ok: boolean, output: Uint8Array): void {
    this.#end(ok, output, null);
  }

  fail(error: ErrorBody): void {
    this.#end(false, EMPTY, error);
  }

  #end(ok: boolean, output: Uint8Array, error: ErrorBody | null): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onEnd();
    const { now, ledger, events } = this.#options;
    const node: RunNode = {
      ...this.#start,
      output: recordedValue(output),
      ok,
      error,
      endedAt: now(),
      usage: { ...this.#usage },
    };
    ledger.node(node);
    events.publish({ type: 'node.end', node });
  }
}

export function noUsage(): Usage {
  return { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: 0 };
}
