/** Folds the events of a turn into what is known of it: what the agent said, thought, did and asked, in order, and how it ended. */
import type { PermissionOption, TurnEvent } from './agents.ts';
import { TurnCost } from './turn-cost.ts';

export type TurnState = 'running' | 'ok' | 'error' | 'aborted' | 'interrupted';

/** A call of a tool. `ok` is null while it runs; `asked` is what it was permitted or refused for. */
export type ToolBlock = {
  kind: 'tool';
  toolName: string;
  args?: unknown;
  sql?: string | undefined;
  ok: boolean | null;
  result?: unknown;
  errorText?: string | undefined;
  asked?: string | undefined;
};
/** `isOpen` while nobody has answered; `byPolicy`: the policy of the runner did, so no one is asked. */
export type QuestionBlock = {
  kind: 'question';
  requestId: string;
  toolName: string;
  detail: string;
  options: PermissionOption[];
  isOpen: boolean;
  byPolicy: boolean;
  /** Null for no answer, which refuses. */
  optionId: string | null;
};
type SaidBlock = { kind: 'text'; text: string } | { kind: 'thought'; text: string };
export type Block = SaidBlock | ToolBlock | QuestionBlock | { kind: 'error'; code: string; message: string };
/** The `file` event of a turn. */
export type ChangedFile = { path: string; status: string };

export class Turn {
  readonly blocks: Block[] = [];
  state: TurnState = 'running';
  /** What the turn changed in the draft, each file once, by path. */
  readonly files = new Map<string, ChangedFile>();
  readonly #tools = new Map<string, ToolBlock>();
  readonly #cost = new TurnCost();
  /** The answer is tried again: what was said of it is dropped when the new one begins. */
  #isVoid = false;

  /** Answers the block that the event has begun or changed, if it has one. */
  take(event: TurnEvent): Block | null {
    this.#cost.take(event);
    switch (event.type) {
      case 'assistant.delta':
        return this.#say('text', event.delta);
      case 'reasoning.delta':
        return this.#say('thought', event.delta);
      case 'final':
        return this.#isVoid || !this.#hasText() ? this.#say('text', event.text) : null;
      case 'tool.start':
        return this.#tool(event);
      case 'tool.result': {
        const { toolCallId, ok, result, errorText } = event;
        const tool = this.#tool(event);
        // Some agents use an id again: it is another call once the first has its result.
        this.#tools.delete(toolCallId);
        return Object.assign(tool, { ok, result, errorText });
      }
      case 'permission': {
        const { requestId, toolName, detail, options, optionId } = event;
        const byPolicy = optionId !== undefined;
        const answered = { isOpen: !byPolicy, byPolicy, optionId: optionId ?? null };
        return this.#add({ kind: 'question', requestId, toolName, detail, options, ...answered });
      }
      case 'permission.result':
        return this.#close(event.requestId, event.optionId);
      case 'phase':
        this.#isVoid ||= event.phase === 'retrying';
        return null;
      case 'file':
        this.files.set(event.path, event);
        return null;
      case 'error':
        this.state = 'error';
        return this.#add({ kind: 'error', code: event.code, message: event.message });
      case 'aborted':
        this.state = 'aborted';
        return null;
      case 'end':
        this.end();
        return null;
      default:
        return null;
    }
  }

  /** Nothing more comes. */
  end(state: TurnState = this.state): void {
    this.state = state === 'running' ? 'ok' : state;
    for (const block of this.blocks) if (block.kind === 'question') block.isOpen = false;
  }

  /** Who took it and what it used, as far as it is known; `count` writes a number. */
  facts(count: (tokens: number) => string): string[] {
    return this.#cost.facts(count);
  }

  #add<B extends Block>(block: B): B {
    this.blocks.push(block);
    return block;
  }

  #say(kind: SaidBlock['kind'], text: string): SaidBlock {
    this.#dropVoid();
    const last = this.blocks.at(-1);
    if (last?.kind !== kind) return this.#add<SaidBlock>({ kind, text });
    (last as SaidBlock).text += text;
    return last as SaidBlock;
  }

  /** The answer begins anew: what was said of it is not shown beside. */
  #dropVoid(): void {
    if (!this.#isVoid) return;
    this.#isVoid = false;
    const isSaid = (kind: string | undefined) => kind === 'text' || kind === 'thought';
    while (isSaid(this.blocks.at(-1)?.kind)) this.blocks.pop();
  }

  /** Text came after the last tool. */
  #hasText(): boolean {
    const last = this.blocks.findLastIndex(({ kind }) => kind === 'tool');
    return this.blocks.slice(last + 1).some((block) => block.kind === 'text' && block.text !== '');
  }

  #tool({ toolCallId, toolName, args, sql }: { toolCallId: string; toolName: string; args?: unknown; sql?: string }) {
    const known = this.#tools.get(toolCallId);
    if (known !== undefined) return known;
    this.#dropVoid();
    const tool = this.#add<ToolBlock>({ kind: 'tool', toolName, args, sql, ok: null });
    this.#tools.set(toolCallId, tool);
    return tool;
  }

  /** The first answer counts. */
  #close(requestId: string, optionId: string | null): QuestionBlock | null {
    const question = this.blocks.find(
      (block): block is QuestionBlock => block.kind === 'question' && block.requestId === requestId,
    );
    if (question === undefined) return null;
    return question.isOpen ? Object.assign(question, { isOpen: false, optionId }) : question;
  }
}

/** The statement of a tool's call, or its arguments in a line. */
export function toolInputText({ sql, args }: Pick<ToolBlock, 'sql' | 'args'>): string {
  return sql ?? (args === undefined ? '' : JSON.stringify(args));
}

/** The label of the option that was chosen; undefined where none was. */
export function chosenLabel({ options, optionId }: QuestionBlock): string | undefined {
  return options.find((option) => option.optionId === optionId)?.label;
}
