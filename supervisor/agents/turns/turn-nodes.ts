/** Records the tools and permissions of a turn as nodes of its run, and what it used (specification, "Turns"). */
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { addUsage, NOT_GRANTED, type RunNode } from '../../../protocol/automations/runs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { json } from '../../automations/fires/fire-values.ts';
import type { OpenNode, RunNodes } from '../../runs/run-nodes.ts';
import { usageOf } from './sound-event.ts';

export class TurnNodes {
  /** The model that its agent named last. */
  model: string | null;
  readonly #nodes: RunNodes;
  /** By the key of the event that ends them. */
  readonly #open = new Map<string, OpenNode>();

  constructor(nodes: RunNodes, model: string | null) {
    this.#nodes = nodes;
    this.model = model;
  }

  take(event: TurnEvent): void {
    if (event.type === 'tool.start') {
      const args = event.args ?? (event.sql === undefined ? undefined : { sql: event.sql });
      this.#begin(`tool ${event.toolCallId}`, 'tool', event.toolName, args);
    } else if (event.type === 'tool.result') {
      const error = event.ok ? null : { code: 'HANDLER_ERROR', message: event.errorText ?? 'The tool failed.' };
      this.#finish(`tool ${event.toolCallId}`, event.ok, event.result, error);
    } else if (event.type === 'permission') {
      this.#begin(`permission ${event.requestId}`, 'permission', event.toolName, { detail: event.detail });
    } else if (event.type === 'permission.result') {
      const { requestId, ok, optionId } = event;
      this.#finish(`permission ${requestId}`, ok, { optionId }, ok ? null : NOT_GRANTED);
    } else if (event.type === 'usage') {
      const { model, ...used } = usageOf(event);
      this.model = model ?? this.model;
      addUsage(this.#nodes.usage, used);
    }
  }

  #begin(key: string, kind: RunNode['kind'], name: string, args: unknown): void {
    if (this.#nodes.count < LIMITS.runNodes) this.#open.set(key, this.#nodes.begin(kind, name, json(args)));
  }

  #finish(key: string, ok: boolean, output: unknown, error: RunNode['error']): void {
    const open = this.#open.get(key);
    if (open) this.#nodes.end(open, ok, json(output), error);
  }
}
