/** Sums up which agent took a turn, and what the turn used. */
import type { TurnEvent, TurnUsage } from './agents.ts';

const COUNTED = ['inputTokens', 'outputTokens', 'costUsd'] as const;

export class TurnCost {
  readonly #usage: TurnUsage = {};
  #runner = '';

  /** Takes what `assistant.start` and `usage` say; other events say nothing of it. */
  take(event: TurnEvent): void {
    if (event.type === 'assistant.start') this.#runner = event.runner;
    else if (event.type !== 'usage') return;
    const sum = this.#usage;
    if (event.model) sum.model = event.model;
    if (event.type === 'usage') for (const name of COUNTED) sum[name] = (sum[name] ?? 0) + (event[name] ?? 0);
  }

  /** `codex`, `gpt-5`, `1,204 tokens in, 88 out`, `$0.01`, as far as they are known; `count` writes a number. */
  facts(count: (tokens: number) => string): string[] {
    const { model, inputTokens = 0, outputTokens = 0, costUsd = 0 } = this.#usage;
    const tokens = inputTokens + outputTokens > 0 && `${count(inputTokens)} tokens in, ${count(outputTokens)} out`;
    const cost = costUsd > 0 && `$${costUsd.toFixed(costUsd < 0.1 ? 4 : 2)}`;
    return [this.#runner, model, tokens, cost].filter(Boolean) as string[];
  }
}
