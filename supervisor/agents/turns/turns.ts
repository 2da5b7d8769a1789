/**
 * Takes the messages of chat windows and conversations, makes each turn a run of the `RunEngine`, and lets followers read what is
 * stored of a turn (specification, "Turns").
 */
import type { Logger } from 'pino';
import type {
  AgentScope,
  ChatMode,
  ThinkingLevel,
  TurnAttachment,
  TurnEvent,
} from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type { OpenConversation, StoredTurn } from '../../../protocol/agents/stored-turns.ts';
import { movedError, SvcError } from '../../../protocol/errors.ts';
import { scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { causeOf, type HandlerUser, type NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { recordedValue } from '../../../storage/automations/run-rows.ts';
import { hashOf, titleOf } from '../../../storage/chat/chat-tables.ts';
import { json } from '../../automations/fires/fire-values.ts';
import { notConfirmed } from '../../dispatch/confirmation.ts';
import type { Confirmation } from '../../dispatch/request.ts';
import { isMoved, type Moved } from '../../dispatch/scope.ts';
import type { Asker } from '../../edge/edge.ts';
import type { ConversationRunner, ConversationTurn } from '../../extension-points.ts';
import type { RunEngine } from '../../runs/engine.ts';
import type { Run, Work } from '../../runs/run.ts';
import { type HeldConversation, HeldConversations } from './held-conversations.ts';
import { endedTurn, LiveTurn, type ReadableTurn, StorePace } from './live-turn.ts';
import { remembered } from './remembered.ts';
import { type TurnDrafts, workspaceOf } from './turn-drafts.ts';
import { type Enter, TurnWork } from './turn-work.ts';

/** By name; `model` is absent where the runner decides. */
export type ChosenRunner = { runner: string; model?: string };

/** A message, and what its sender wants of the turn. */
export type TurnRequest = {
  message: string;
  /** By default the conversation's, else `data`. */
  mode?: ChatMode;
  runner?: string;
  model?: string;
  thinking?: ThinkingLevel;
  attachments?: TurnAttachment[];
  /** The workspace whose draft a turn of mode `full` works in; by default that of its conversation. */
  workspace?: string;
  idempotencyKey?: string;
  /** Its sender: the turn ends when what it presented does. */
  asker?: Asker;
  /**
   * Its sender does not manage the app, such as a page of it: the agent has the tools of the app alone, and may by SQL what the app
   * allows (specification, "Runners of pages").
   */
  limited?: boolean;
  /** The person who sends it, as handlers see them. */
  user?: HandlerUser | undefined;
  /** Throws unless its sender may have a turn of this mode, in a conversation of this person: undefined for a new one, null for nobody's. */
  permit?(mode: ChatMode, by: NamedPerson | null | undefined): void;
};

/** What a turn names. `usual` is the runner of its conversation, `limited` as in `TurnRequest`. */
export type AskedRunner = { runner?: string; model?: string; usual?: string; limited?: boolean };

/** Runs turns, and lists the runners. */
export type TurnRunner = {
  /**
   * The runner for a turn, by name, and its model. Throws or rejects with `NO_RUNNER`, and with `BAD_REQUEST` or `FORBIDDEN` with the
   * member in `path`.
   */
  choose(asked: AskedRunner): ChosenRunner | Promise<ChosenRunner>;
  run: ConversationRunner;
  /** Ends the agents of conversations that are over. Absent where none is kept. */
  endAgentsOf?(over: AgentScope): void;
};

export type TurnsOptions = {
  open(name: ConversationName): Promise<OpenConversation>;
  runner: TurnRunner;
  /** Where turns of mode `full` work; null on the tarball backend. */
  drafts: Pick<TurnDrafts, 'ensure' | 'enter'> | null;
  engine: Pick<RunEngine, 'start' | 'running' | 'stop' | 'release'>;
  log: Logger;
  /** How long a question of an agent waits for its answer. */
  permissionMs?: number;
};

/** A turn with a reader; `leave` must be called once. */
export type HeldTurn = {
  turn: ReadableTurn;
  leave(): void;
};

/** The turn of a message that was just sent, or sent again. */
export type AcceptedTurn = HeldTurn & {
  /** Its sender has gone away: the turn is aborted unless another request sent the same message. To be called once at most. */
  abandon(): void;
};

export class Turns {
  readonly #options: TurnsOptions;
  readonly #held: HeldConversations;
  /** Turns that run, wait or are about to be stored, in their order. */
  readonly #works = new Set<TurnWork>();
  readonly #pace = new StorePace();

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#held = new HeldConversations(options);
  }

  /**
   * Stores a message, and runs its turn after those before it; resolves once it is stored. A key that was used before gives the
   * turn of that time. Rejects with `IDEMPOTENCY_MISMATCH`, `MODE_UNAVAILABLE`, `CONFLICT`, and as `choose`, the store and
   * `RunEngine.start` do.
   */
  async accept(name: ConversationName, request: TurnRequest): Promise<AcceptedTurn> {
    return await this.#held.hold(name, (held) => held.serial(() => this.#accept(held, request)));
  }

  /** A turn to read. Rejects with `UNKNOWN_TURN`. */
  async hold(name: ConversationName, turnId: string): Promise<HeldTurn> {
    return await this.#held.hold(name, async (held) => this.#readable(held, held.stored(turnId)));
  }

  /** Aborts a turn; resolves with its state once it has ended. One that has ended stays as it is. Rejects with `UNKNOWN_TURN`. */
  async abort(name: ConversationName, turnId: string): Promise<{ turnId: string; state: string }> {
    return await this.#held.use(name, async (held) => {
      const { state } = (await this.#work(held, turnId)?.abort()) ?? held.stored(turnId);
      return { turnId, state };
    });
  }

  /**
   * Asks the person of a conversation before an action runs that its agent called, as `TurnWork.confirm` does. Rejects likewise where
   * no turn of it runs.
   */
  async confirm(conversation: string, asked: Confirmation, signal?: AbortSignal): Promise<void> {
    const [work] = this.#worksOf(({ lane }) => lane === conversation);
    if (work === undefined) throw notConfirmed(asked, 'unanswered');
    await work.confirm(asked, signal);
  }

  /**
   * A person answers a question of a turn's agent. `permit` throws unless it may: `own` is whether the question is about an action
   * of the app itself. Rejects as that and `Permissions.choose` do, and with `UNKNOWN_TURN`.
   */
  async choose(
    name: ConversationName,
    turnId: string,
    requestId: string,
    optionId: string,
    permit: (own: boolean) => void,
  ): Promise<{ ok: boolean }> {
    return await this.#held.use(name, async (held) => {
      const work = this.#work(held, turnId);
      permit(work?.isConfirmation(requestId) === true);
      if (work) return work.choose(requestId, optionId);
      held.stored(turnId);
      throw new SvcError('CONFLICT', 'The turn has ended; nothing waits for an answer.');
    });
  }

  /** Ends the turns of a conversation, then does `work` while nothing is stored in it. */
  async whileClosed<T>(name: ConversationName, work: () => Promise<T>): Promise<T> {
    return await this.#held.use(name, async (held) => {
      held.refusal = beingDeleted();
      try {
        // Behind messages that are being stored.
        return await held.serial(async () => {
          await this.#abort(({ lane }) => lane === held.key);
          await held.conversation.close();
          this.#held.forget(held);
          this.#options.runner.endAgentsOf?.({ conversation: held.key });
          return await work();
        });
      } finally {
        held.refusal = null;
      }
    });
  }

  /** Ends the turns of an app or a draft that is being removed. */
  async stopApp(app: string, draft?: string): Promise<void> {
    const all = this.#held.of(app, draft);
    for (const held of all) {
      held.refusal = beingDeleted();
      this.#held.forget(held);
    }
    await Promise.all(all.map((held) => held.serial(() => this.#abort(({ lane }) => lane === held.key))));
    this.#options.runner.endAgentsOf?.({ app, ...(draft === undefined ? {} : { draft }) });
  }

  /** Turns of these apps, drafts and workspaces are stored as `interrupted`: another node goes on with them. */
  async release(moved: Moved): Promise<void> {
    const { engine, runner } = this.#options;
    const isOf = ({ app, draft }: ConversationName) => isMoved(moved, scopeKey(app, draft));
    const held = this.#held.all.filter(({ name }) => isOf(name));
    for (const conversation of held) conversation.refusal = movedError();
    // Behind messages that are being stored.
    await Promise.all(held.map((conversation) => conversation.serial(async () => {})));
    const works = new Set<Work>(
      this.#worksOf(({ name, begun }) => isOf(name) || moved.workspaces.includes(begun?.draft as string)),
    );
    await engine.release(({ work }) => works.has(work), 0);
    for (const conversation of held) this.#held.forget(conversation);
    for (const app of moved.apps) runner.endAgentsOf?.({ app });
    for (const draft of moved.workspaces) runner.endAgentsOf?.({ draft });
  }

  /** Ends the turns of callers whose session or token has ended, unless another one sent the same message. */
  endRefused(): void {
    for (const work of [...this.#works]) work.endRefused();
  }

  /** Ends the turns that work in a workspace that is being closed. */
  async stopDraft(workspace: string): Promise<void> {
    await this.#abort(({ begun }) => begun?.draft === workspace);
    this.#options.runner.endAgentsOf?.({ draft: workspace });
  }

  /** Resolves when the turns in a workspace that are being ended have ended; those that go on are not waited for. */
  async settled(workspace: string): Promise<void> {
    const works = this.#worksOf(({ begun, isEnding }) => begun?.draft === workspace && isEnding);
    await Promise.all(works.map(({ ended }) => ended));
  }

  /** Ends the turns of a conversation that an earlier gateway left running. */
  async settle(name: ConversationName): Promise<void> {
    await this.#held.use(name, async () => {});
  }

  /** Takes no more messages; turns under way are stored as `interrupted`. */
  async stop(): Promise<void> {
    await this.#options.engine.stop('chat', 0);
  }

  async #accept(held: HeldConversation, request: TurnRequest): Promise<AcceptedTurn> {
    const { conversation } = held;
    const { message, idempotencyKey: key, asker = null } = request;
    const mode = request.mode ?? conversation.mode ?? 'data';
    // The turn of then, too, is for those who may have one like it.
    request.permit?.(
      conversation.mode === 'full' ? 'full' : mode,
      conversation.mode === null ? undefined : conversation.by,
    );
    const known = key === undefined ? undefined : conversation.turns.findLast((one) => one.idempotencyKey === key);
    if (known) {
      if (known.messageHash === hashOf(message)) return this.#accepted(held, known, asker);
      throw new SvcError('IDEMPOTENCY_MISMATCH', 'This key was used before with another message.');
    }
    if (held.refusal !== null) throw held.refusal;
    if (conversation.mode !== null && mode !== conversation.mode) throw pinned(conversation.mode);
    let accepted: AcceptedTurn | undefined;
    const { runner, log, engine, permissionMs = LIMITS.permissionMs } = this.#options;
    const work = new TurnWork({
      name: held.name,
      ...causeOf(request),
      runner: runner.run,
      store: async (run) => {
        const stored = await this.#begin(held, request, mode, work, run);
        // Before it runs: what its sender presented may have ended meanwhile.
        accepted = this.#accepted(held, stored, asker);
      },
      permissionMs,
      log,
    });
    this.#works.add(work);
    // The turn itself holds the conversation open.
    held.users++;
    const leave = () => {
      this.#works.delete(work);
      this.#held.leave(held);
    };
    try {
      const run = await engine.start(work);
      void run.ended.then(leave);
    } catch (error) {
      leave();
      throw error;
    }
    return accepted as AcceptedTurn;
  }

  /** Stores the message, with its run. */
  async #begin(
    held: HeldConversation,
    request: TurnRequest,
    mode: ChatMode,
    work: TurnWork,
    run: Run,
  ): Promise<StoredTurn> {
    const { conversation, name } = held;
    const { message, idempotencyKey: key, thinking, attachments, user } = request;
    const { runner, log, engine } = this.#options;
    const { runId: turnId } = run;
    const limited = request.limited === true || conversation.limited;
    const usual = conversation.turns.at(-1)?.runner;
    const { runner: named, model: asked, workspace = workspaceOf(name) } = request;
    const chosen = await runner.choose({
      ...(named === undefined ? {} : { runner: named }),
      ...(asked === undefined ? {} : { model: asked }),
      ...(usual === undefined ? {} : { usual }),
      limited,
    });
    const draft = mode === 'full' ? workspace : name.draft;
    const enter = mode === 'full' ? await this.#placeOf(workspace, name.app, titleOf(message)) : null;
    const first = firstEvents(turnId, chosen, draft, engine.running(held.key) - 1);
    const given = {
      message,
      mode,
      ...chosen,
      ...(thinking === undefined ? {} : { thinking }),
      ...(attachments === undefined ? {} : { attachments }),
    };
    const input = recordedValue(json({ message, ...chosen, mode }));
    const stored = await conversation.begin(
      {
        turnId,
        ...given,
        ...(key === undefined ? {} : { idempotencyKey: key }),
        ...(limited ? { limited } : {}),
        ...causeOf(request),
        ts: Date.now(),
      },
      first,
      { begin: (turn) => run.insert(input, turn), end: (turn) => run.storeEnd(turn) },
    );
    const live = new LiveTurn(conversation, stored, first, this.#pace, log);
    const turn = async () => ({
      app: name.app,
      windowId: name.id,
      conversation: held.key,
      ...given,
      ...(draft === undefined ? {} : { draft }),
      limited,
      ...(user && { user }),
      ...(await memoryOf(conversation, chosen.runner)),
    });
    work.begin({ live, model: chosen.model, draft, enter, turn });
    return stored;
  }

  /** Makes sure of the draft; answers what a turn calls when it begins there. Rejects with `MODE_UNAVAILABLE`, and as `ensure` does. */
  async #placeOf(workspace: string, app: string, title: string): Promise<Enter> {
    const { drafts } = this.#options;
    if (drafts === null)
      throw new SvcError(
        'MODE_UNAVAILABLE',
        'Mode "full" needs the git store: stop the gateway, then svc convert --store git.',
        {
          path: 'mode',
        },
      );
    await drafts.ensure(workspace, app, title);
    return (tell) => drafts.enter(workspace, app, tell);
  }

  #readable(held: HeldConversation, stored: StoredTurn): HeldTurn {
    const turn = this.#work(held, stored.turnId)?.begun?.live ?? endedTurn(held.conversation, stored);
    return { turn, leave: () => this.#held.leave(held) };
  }

  #accepted(held: HeldConversation, stored: StoredTurn, asker: Asker | null): AcceptedTurn {
    const wish = this.#work(held, stored.turnId)?.addAsker(asker);
    return { ...this.#readable(held, stored), abandon: () => wish?.leave() };
  }

  /** The turn, if it is under way. */
  #work({ key }: HeldConversation, turnId: string): TurnWork | undefined {
    return this.#worksOf(({ lane, begun }) => lane === key && begun?.live.turnId === turnId)[0];
  }

  #worksOf(wanted: (work: TurnWork) => boolean): TurnWork[] {
    return [...this.#works].filter(wanted);
  }

  async #abort(wanted: (work: TurnWork) => boolean): Promise<void> {
    await Promise.all(this.#worksOf(wanted).map((work) => work.abort()));
  }
}

/** What its runner is to know of earlier turns: whoever has a session of its own remembers its tools. */
async function memoryOf(
  conversation: OpenConversation,
  runner: string,
): Promise<Required<Pick<ConversationTurn, 'resume' | 'history'>>> {
  const resume = conversation.resume(runner);
  if (resume === null) return { resume, history: await remembered(conversation) };
  return { resume, history: conversation.texts.map(({ role, text }) => ({ role, text })) };
}

function firstEvents(
  turnId: string,
  { runner, model }: ChosenRunner,
  draft: string | undefined,
  before: number,
): TurnEvent[] {
  const start: TurnEvent = {
    type: 'assistant.start',
    turnId,
    runner,
    ...(model === undefined ? {} : { model }),
    ...(draft === undefined ? {} : { sessionId: draft }),
  };
  const detail = `${before} before this one`;
  return before === 0 ? [start] : [start, { type: 'phase', phase: 'queued', detail }];
}

function beingDeleted(): SvcError {
  return new SvcError('CONFLICT', 'The conversation is being deleted.');
}

function pinned(mode: ChatMode): SvcError {
  const message = `The first message of this conversation set its mode to "${mode}"; for the other one begin a new one.`;
  return new SvcError('MODE_UNAVAILABLE', message, { path: 'mode' });
}
