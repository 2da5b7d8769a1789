/**
 * Numbers the nodes of a run under way, sends each to the followers of the run when it begins and ends, records it when it has ended,
 * and adds up what it used. For fires of automations and turns of chats alike.
 */
import { addUsage, noUsage, type RunNode, type Usage } from '../../protocol/automations/runs.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import type { Redactor } from '../../protocol/text/redactor.ts';
import { recordedValue } from '../../storage/automations/run-rows.ts';
import type { RunEvents } from './run-events.ts';

/** A node under way; its `usage` grows. */
export type OpenNode = Omit<RunNode, 'output' | 'ok' | 'error' | 'endedAt'>;

type RunNodesOptions = {
  runId: string;
  events: Pick<RunEvents, 'publish'>;
  /** Stores a node that has ended. */
  store(node: RunNode): void;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Takes secrets out of what is recorded and sent. */
  redactor(): Redactor;
};

/** Characters of a node's name that are recorded. */
const NAME_CHARS = 200;

export class RunNodes {
  /** Of all nodes, ended and under way. */
  readonly usage: Usage = noUsage();
  /** Nodes that have begun. */
  count = 0;
  readonly #options: RunNodesOptions;
  readonly #open = new Set<OpenNode>();
  #batchId = 0;

  constructor(options: RunNodesOptions) {
    this.#options = options;
  }

  /** Nodes under way. */
  get open(): number {
    return this.#open.size;
  }

  isOpen(node: OpenNode): boolean {
    return this.#open.has(node);
  }

  /** `args` is JSON text, empty for none. */
  begin(kind: RunNode['kind'], name: string, args: Uint8Array): OpenNode {
    const { runId, events, now } = this.#options;
    // A node that begins while another is under way joins its batch.
    if (this.#open.size === 0) this.#batchId++;
    const start = {
      runId,
      ordinal: ++this.count,
      batchId: this.#batchId,
      kind,
      name: name.slice(0, NAME_CHARS),
      args: this.#recorded(args),
      startedAt: now(),
    };
    const node = { ...start, usage: noUsage() };
    this.#open.add(node);
    events.publish({ type: 'node.start', ...start });
    return node;
  }

  /** Counts nothing for a node that has ended. */
  used(node: OpenNode, usage: Partial<Usage>): void {
    if (!this.#open.has(node)) return;
    addUsage(node.usage, usage);
    addUsage(this.usage, usage);
  }

  /** Does nothing for a node that has ended. `output` is JSON text, empty for none. */
  end(open: OpenNode, ok: boolean, output: Uint8Array, error: ErrorBody | null): void {
    if (!this.#open.delete(open)) return;
    const { events, store, now, redactor } = this.#options;
    const shown = redactor().value(error);
    const node: RunNode = { ...open, output: this.#recorded(output), ok, error: shown, endedAt: now() };
    store(node);
    events.publish({ type: 'node.end', node });
  }

  /** The run is over: what is under way has failed. */
  endAll(output: Uint8Array, error: ErrorBody): void {
    for (const node of this.#open) this.end(node, false, output, error);
  }

  #recorded(json: Uint8Array): unknown {
    return recordedValue(this.#options.redactor().json(json));
  }
}
