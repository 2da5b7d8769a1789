/**
 * Runs the turns of chat windows and conversations: stores a message before anything happens with it, runs one turn of a
 * conversation at a time, and lets followers read what is stored of a turn (specification, "Turns").
 */
import type { Logger } from 'pino';
import { v7 as uuid } from 'uuid';
import type { AgentScope, ChatMode, TurnEvent } from '../../../protocol/agents/agents.ts';
import { type SessionName, sessionKey } from '../../../protocol/agents/session-key.ts';
import type { OpenConversation, StoredRun, StoredTurn } from '../../../protocol/agents/turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { hashOf, titleOf } from '../../../storage/chat/chat-rows.ts';
import { notConfirmed } from '../../dispatch/confirmation.ts';
import type { Confirmation } from '../../dispatch/request.ts';
import type { Asker } from '../../edge/edge.ts';
import type { ConversationRunner } from '../../extension-points.ts';
import { stoppingError } from '../../tree/actor/call-errors.ts';
import { endedTurn, LiveTurn, type ReadableTurn, StorePace } from './live-turn.ts';
import { remembered } from './remembered.ts';
import { OpenTools } from './turn-contract.ts';
import { sessionOf, type TurnDrafts } from './turn-drafts.ts';
import { type BegunTurn, type ChosenRunner, endAll, Lane, type TurnRequest } from './turn-lane.ts';
import { type Enter, type TurnObserver, TurnWork } from './turn-work.ts';

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
  /** These conversations are over: no agent is kept for them. Absent where none is kept. */
  leave?(over: AgentScope): void;
};

export type TurnsOptions = {
  open(name: SessionName): Promise<OpenConversation>;
  runner: TurnRunner;
  /** Where turns of mode `full` work; null on the tarball backend. */
  drafts: Pick<TurnDrafts, 'ensure' | 'enter'> | null;
  /** The run of a new turn; `waits` is whether another turn comes before it. */
  observe(turn: BegunTurn, waits: boolean): TurnObserver & { run?: StoredRun };
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
  readonly #lanes = new Map<string, Lane>();
  readonly #pace = new StorePace();
  /** Turns that run, wait or are about to be stored. */
  #count = 0;
  #stopping = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Turns that run or wait. */
  get count(): number {
    return this.#count;
  }

  /**
   * Stores a message, and runs its turn after those before it; resolves once it is stored. A key that was used before gives the
   * turn of that time. Rejects with `IDEMPOTENCY_MISMATCH`, `MODE_UNAVAILABLE`, `OVERLOADED`, `CONFLICT`, and as `choose` and the store do.
   */
  async accept(name: SessionName, request: TurnRequest): Promise<AcceptedTurn> {
    if (this.#stopping) throw stoppingError();
    return await this.#held(name, (lane) => lane.serial(() => this.#accept(lane, request)));
  }

  /** A turn to read. Rejects with `UNKNOWN_TURN`. */
  async hold(name: SessionName, turnId: string): Promise<HeldTurn> {
    return await this.#held(name, async (lane) => this.#readable(lane, lane.stored(turnId)));
  }

  /** Aborts a turn; resolves with its state once it has ended. One that has ended stays as it is. Rejects with `UNKNOWN_TURN`. */
  async abort(name: SessionName, turnId: string): Promise<{ turnId: string; state: string }> {
    return await this.#with(name, async (lane) => {
      const work = lane.turn(turnId);
      work?.abort();
      const state = work ? (await work.ended).state : lane.stored(turnId).state;
      return { turnId, state };
    });
  }

  /**
   * Asks the person of a conversation before an action runs that its agent called, as `TurnWork.confirm` does. Rejects likewise where
   * no turn of it runs.
   */
  async confirm(conversation: string, asked: Confirmation, signal?: AbortSignal): Promise<void> {
    const turn = this.#lanes.get(conversation)?.turns[0];
    if (turn === undefined) throw notConfirmed(asked, 'unanswered');
    await turn.work.confirm(asked, signal);
  }

  /**
   * A person answers a question of a turn's agent. `permit` throws unless it may: `own` is whether the question is about an action
   * of the app itself. Rejects as that and `Permissions.choose` do, and with `UNKNOWN_TURN`.
   */
  async choose(
    name: SessionName,
    turnId: string,
    requestId: string,
    optionId: string,
    permit: (own: boolean) => void,
  ): Promise<{ ok: boolean }> {
    return await this.#with(name, async (lane) => {
      const work = lane.turn(turnId);
      permit(work?.isConfirmation(requestId) === true);
      if (work) return work.choose(requestId, optionId);
      lane.stored(turnId);
      throw new SvcError('CONFLICT', 'The turn has ended; nothing waits for an answer.');
    });
  }

  /** Ends the turns of a conversation, then does `work` while nothing is stored in it. */
  async whileClosed<T>(name: SessionName, work: () => Promise<T>): Promise<T> {
    return await this.#with(name, async (lane) => {
      lane.isLeaving = true;
      try {
        // Behind messages that are being stored.
        return await lane.serial(async () => {
          await endAll(lane.works, null);
          await lane.conversation.close();
          this.#forget(lane);
          this.#options.runner.leave?.({ conversation: lane.key });
          return await work();
        });
      } finally {
        lane.isLeaving = false;
      }
    });
  }

  /** Whether a turn runs or waits now. */
  isOpen(name: SessionName, turnId: string): boolean {
    return this.#lanes.get(sessionKey(name))?.turn(turnId) !== undefined;
  }

  /** Aborts the turn whose run this is; false when no such turn is under way. Resolves once it has ended. */
  async cancel(turnId: string): Promise<boolean> {
    for (const lane of this.#lanes.values()) {
      const work = lane.turn(turnId);
      if (!work) continue;
      work.abort();
      await work.ended;
      return true;
    }
    return false;
  }

  /** Ends the turns of an app or a draft that is being removed. */
  async stopApp(app: string, draft?: string): Promise<void> {
    const lanes = [...this.#lanes.values()].filter(({ name }) => name.app === app && name.draft === draft);
    for (const lane of lanes) {
      lane.isLeaving = true;
      this.#forget(lane);
    }
    await Promise.all(lanes.map((lane) => lane.serial(() => endAll(lane.works, null))));
    this.#options.runner.leave?.({ app, ...(draft === undefined ? {} : { draft }) });
  }

  /** Ends the turns of callers whose session or token has ended, unless another one sent the same message. */
  endRefused(): void {
    for (const { works } of [...this.#lanes.values()]) for (const work of works) work.endRefused();
  }

  /** Ends the turns that work in a session that is being closed. */
  async stopDraft(session: string): Promise<void> {
    const works = [...this.#lanes.values()].flatMap(({ turns }) =>
      turns.filter(({ begun }) => begun.draft === session).map(({ work }) => work),
    );
    await endAll(works, null);
    this.#options.runner.leave?.({ draft: session });
  }

  /** Resolves when the turns in a session that are being ended have ended; those that go on are not waited for. */
  async settled(session: string): Promise<void> {
    const works = [...this.#lanes.values()].flatMap(({ turns }) =>
      turns.filter(({ begun, work }) => begun.draft === session && work.isEnding).map(({ work }) => work.ended),
    );
    await Promise.all(works);
  }

  /** Ends the turns of a conversation that an earlier gateway left running. */
  async settle(name: SessionName): Promise<void> {
    await this.#with(name, async () => {});
  }

  /** Takes no more messages; turns under way are stored as `interrupted`. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const reason = new SvcError('RUN_ABORTED', 'The gateway stopped before the turn had ended.');
    await Promise.all([...this.#lanes.values()].map((lane) => lane.serial(() => endAll(lane.works, reason))));
  }

  async #accept(lane: Lane, request: TurnRequest): Promise<AcceptedTurn> {
    const { conversation } = lane;
    const { message, idempotencyKey: key, asker = null } = request;
    const mode = request.mode ?? conversation.mode ?? 'data';
    // The turn of then, too, is for those who may have one like it.
    request.permit?.(conversation.mode === 'full' ? 'full' : mode);
    const known = key === undefined ? undefined : conversation.turns.findLast((one) => one.idempotencyKey === key);
    if (known) {
      if (known.messageHash === hashOf(message)) return this.#accepted(lane, known, asker);
      throw new SvcError('IDEMPOTENCY_MISMATCH', 'This key was used before with another message.');
    }
    if (this.#stopping) throw stoppingError();
    if (lane.isLeaving) throw new SvcError('CONFLICT', 'The conversation is being deleted.');
    if (conversation.mode !== null && mode !== conversation.mode) throw pinned(conversation.mode);
    if (lane.turns.length > LIMITS.chatQueue) throw tooManyWait();
    if (this.#count >= LIMITS.chatTurns) throw tooManyTurns();
    this.#count++;
    try {
      return await this.#begin(lane, request, mode);
    } catch (error) {
      this.#count--;
      throw error;
    }
  }

  /** Stores the message; its turn is counted. */
  async #begin(lane: Lane, request: TurnRequest, mode: ChatMode): Promise<AcceptedTurn> {
    const { conversation, name } = lane;
    const { message, idempotencyKey: key, thinking, attachments, asker = null } = request;
    const { runner, log, observe, permissionMs = LIMITS.permissionMs } = this.#options;
    const limited = request.limited === true || conversation.limited;
    const usual = conversation.turns.at(-1)?.runner;
    const { runner: named, model: asked, session = sessionOf(name) } = request;
    const chosen = await runner.choose({
      ...(named === undefined ? {} : { runner: named }),
      ...(asked === undefined ? {} : { model: asked }),
      ...(usual === undefined ? {} : { usual }),
      limited,
    });
    const draft = mode === 'full' ? session : name.draft;
    const enter = mode === 'full' ? await this.#placeOf(session, name.app, titleOf(message)) : null;
    const turnId = uuid();
    const begun: BegunTurn = { turnId, name, request, mode, draft, limited, ...chosen };
    const first = firstEvents(begun, lane.turns.length);
    const observer = observe(begun, lane.turns.length > 0);
    const stored = await conversation.begin(
      {
        turnId,
        message,
        mode,
        ...chosen,
        ...(thinking === undefined ? {} : { thinking }),
        ...(attachments === undefined ? {} : { attachments }),
        ...(key === undefined ? {} : { idempotencyKey: key }),
        ...(limited ? { limited } : {}),
        ts: Date.now(),
      },
      first,
      observer.run,
    );
    const live = new LiveTurn(conversation, stored, first, this.#pace, log);
    const work = new TurnWork({ live, observer, enter, permissionMs, log });
    lane.turns.push({ work, begun });
    // The turn itself holds the conversation open.
    lane.users++;
    void work.ended.then(() => this.#leaveTurn(lane, work));
    // Before it runs: what its sender presented may have ended meanwhile.
    const accepted = this.#accepted(lane, stored, asker);
    if (lane.turns.length === 1) this.#next(lane);
    return accepted;
  }

  /** Makes sure of the draft; answers what a turn calls when it begins there. Rejects with `MODE_UNAVAILABLE`, and as `ensure` does. */
  async #placeOf(session: string, app: string, title: string): Promise<Enter> {
    const { drafts } = this.#options;
    if (drafts === null)
      throw new SvcError(
        'MODE_UNAVAILABLE',
        'Mode "full" needs the git store: stop the gateway, then svc convert --store git.',
        {
          path: 'mode',
        },
      );
    await drafts.ensure(session, app, title);
    return (tell) => drafts.enter(session, app, tell);
  }

  /** Runs the first turn of the lane, if it waits. */
  #next({ turns, conversation, key }: Lane): void {
    const first = turns[0];
    if (!first) return;
    const { work, begun } = first;
    const resume = conversation.resume(begun.runner);
    const said = () => conversation.said.map(({ role, text }) => ({ role, text }));
    const { name, request, mode, draft, limited, runner, model } = begun;
    const { message, thinking, attachments } = request;
    void work.run(this.#options.runner.run, async () => ({
      app: name.app,
      windowId: name.id,
      conversation: key,
      message,
      mode,
      runner,
      ...(model === undefined ? {} : { model }),
      ...(thinking === undefined ? {} : { thinking }),
      ...(attachments === undefined ? {} : { attachments }),
      ...(draft === undefined ? {} : { draft }),
      limited,
      resume,
      // Whoever has a session of its own remembers its tools.
      history: resume === null ? await remembered(conversation) : said(),
    }));
  }

  #leaveTurn(lane: Lane, work: TurnWork): void {
    const at = lane.turns.findIndex((one) => one.work === work);
    lane.turns.splice(at, 1);
    this.#count--;
    if (at === 0) this.#next(lane);
    this.#leave(lane);
  }

  #readable(lane: Lane, stored: StoredTurn): HeldTurn {
    const turn = lane.turn(stored.turnId)?.live ?? endedTurn(lane.conversation, stored);
    return { turn, leave: () => this.#leave(lane) };
  }

  #accepted(lane: Lane, stored: StoredTurn, asker: Asker | null): AcceptedTurn {
    const wish = lane.turn(stored.turnId)?.want(asker);
    return { ...this.#readable(lane, stored), abandon: () => wish?.leave() };
  }

  async #with<T>(name: SessionName, work: (lane: Lane) => Promise<T>): Promise<T> {
    const lane = await this.#enter(name);
    try {
      return await work(lane);
    } finally {
      this.#leave(lane);
    }
  }

  /** As `#with`, for what its reader leaves. */
  async #held<T extends HeldTurn>(name: SessionName, work: (lane: Lane) => Promise<T>): Promise<T> {
    const lane = await this.#enter(name);
    try {
      return await work(lane);
    } catch (error) {
      this.#leave(lane);
      throw error;
    }
  }

  async #enter(name: SessionName): Promise<Lane> {
    const key = sessionKey(name);
    const lane = this.#lanes.get(key) ?? this.#newLane(name);
    lane.users++;
    try {
      await lane.ready;
    } catch (error) {
      this.#forget(lane);
      throw error;
    }
    return lane;
  }

  #newLane(name: SessionName): Lane {
    const lane = new Lane(name);
    this.#lanes.set(lane.key, lane);
    lane.ready = this.#open(lane);
    return lane;
  }

  /** Turns that an earlier gateway did not finish are `interrupted`. */
  async #open(lane: Lane): Promise<void> {
    const conversation = await this.#options.open(lane.name);
    lane.conversation = conversation;
    for (const turn of conversation.turns) {
      if (turn.state !== 'running') continue;
      const tools = new OpenTools();
      for await (const { event } of conversation.events(turn, 0))
        if (event.type === 'tool.start' || event.type === 'tool.result') tools.admit(event);
      const results = tools.missing('The gateway stopped before the tool had a result.');
      await conversation.append(turn, [...results, ...INTERRUPTED], { end: 'interrupted' });
    }
  }

  #leave(lane: Lane): void {
    if (--lane.users > 0) return;
    this.#forget(lane);
    lane.conversation.close().catch((error: unknown) => {
      this.#options.log.warn({ err: error }, 'A conversation could not be closed.');
    });
  }

  #forget(lane: Lane): void {
    if (this.#lanes.get(lane.key) === lane) this.#lanes.delete(lane.key);
  }
}

const INTERRUPTED: TurnEvent[] = [
  {
    type: 'error',
    code: 'RUN_ABORTED',
    message: 'The gateway stopped before the turn had ended; what was done until then stays done.',
  },
  { type: 'end' },
];

function firstEvents({ turnId, draft, runner, model }: BegunTurn, before: number): TurnEvent[] {
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

function pinned(mode: ChatMode): SvcError {
  const message = `The first message of this conversation set its mode to "${mode}"; for the other one begin a new one.`;
  return new SvcError('MODE_UNAVAILABLE', message, { path: 'mode' });
}

function tooManyWait(): SvcError {
  return overloaded(`${LIMITS.chatQueue} messages wait in this conversation; wait for an answer.`);
}

function tooManyTurns(): SvcError {
  return overloaded(`${LIMITS.chatTurns} messages to agents are being answered or wait for that; try again later.`);
}

function overloaded(message: string): SvcError {
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': '5' } });
}
