/** `svc chat`: talks with an agent about an app, line by line on a terminal, or with one message. */
import { randomBytes } from 'node:crypto';
import { text as textOf } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { Turn, TurnState } from '../../../protocol/agents/turn.ts';
import type { NewWebhook } from '../../../protocol/automations/automation.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import { plural } from '../../../protocol/text/units.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError, EXIT, UnreachableError, UsageError } from '../../failure.ts';
import { type Attachment, attach } from '../../gateway/attachments.ts';
import {
  allConversations,
  answerQuestion,
  type ConversationName,
  type ConversationRow,
  messageTo,
  nameIn,
  stopTurn,
} from '../../gateway/conversations.ts';
import { tableOf } from '../../resource.ts';
import { CONVERSATIONS } from '../../resources.ts';
import { didYouMean } from '../../terminal/nearest.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { TurnDrawing } from '../../terminal/turn-drawing.ts';
import { drawMinted, drawPending } from '../apps/versions-command.ts';

type Permission = Extract<TurnEvent, { type: 'permission' }>;

const PROMPT = '› ';
/** Answers after which another message would fail in the same way. */
const FINAL = new Set([401, 403, 404]);
/** How a turn ends that did not do what was asked. */
const FAILED = new Set<TurnState>(['error', 'aborted']);
/** Conversations listed when no conversation has the given name. */
const LISTED = 8;

export async function chat(context: CommandContext): Promise<number> {
  const { args, terminal, connect, cwd } = context;
  const app = args.at(0);
  const isTalk = args.optionalAt(1) === undefined && terminal.stdin.isTTY === true && !terminal.json;
  const message = isTalk ? '' : (args.optionalAt(1) ?? (await textOf(terminal.stdin)).trim());
  if (!isTalk && message === '')
    throw new UsageError('There is no message.', `svc chat ${app} "…", or a message on standard input.`);
  const name = await choose(context);
  const conversation = new Conversation(context, name, await attach(connect(), app, args.list('attach'), cwd));
  let code: number = EXIT.ok;
  if (isTalk) {
    terminal.hint('Each line is a message. Ctrl-C stops a turn; Ctrl-D ends the command.');
    await talk(conversation, context);
  } else code = await conversation.turn(message);
  if (!terminal.json) {
    if (conversation.workspace !== null) drawDraft(terminal, app, conversation.workspace);
    terminal.hint(`Continue: svc chat ${app} --window ${name.id}`);
  }
  return code;
}

/** The conversation that the options name, or a new one; says which it is. Throws for options that it does not allow. */
async function choose({ args, terminal, connect }: CommandContext): Promise<ConversationName> {
  const app = args.at(0);
  const [named, mode] = [args.text('window'), args.text('mode')];
  // Says at once what is wrong with the app, the token or the gateway.
  const { rows, hasCode } = await allConversations(connect(), app);
  const known = rows.find(({ id }) => id === named);
  const name = known ?? newConversation(app, named, mode === 'full' && hasCode);
  if (known?.kind === 'conversation' && mode === 'data')
    throw new CommandError(`"${name.id}" is about code: its mode is full.`, 'Omit --window to begin a new one.');
  if (args.has('attach') && name.kind === 'window') throw withoutFiles(known, hasCode);
  if (terminal.json) terminal.event({ type: name.kind, ...nameIn(name) });
  else if (known && terminal.notesAreSeen)
    terminal.hint(`${known.title || known.id} · ${plural(known.turns, 'turn')} · mode ${known.mode}`);
  else if (!known && named !== undefined && rows.length > 0) drawOthers(terminal, named, rows);
  return name;
}

/** A chat about code is a conversation of the git store, as in the console: only those take files. */
function newConversation(app: string, named: string | undefined, isAboutCode: boolean): ConversationName {
  return { kind: isAboutCode ? 'conversation' : 'window', app, id: named ?? randomBytes(4).toString('hex') };
}

function withoutFiles(known: ConversationRow | undefined, hasCode: boolean): CommandError {
  if (!hasCode)
    return new CommandError(
      'Messages on this gateway cannot have files: that needs the git store.',
      'Put the text into the message, or stop the gateway and move its apps: svc convert --store git',
    );
  if (known)
    return new CommandError(
      `Messages of "${known.id}" cannot have files.`,
      'Begin a conversation that can: --mode full, without --window.',
    );
  return new UsageError('Only messages about code can have files.', 'Add --mode full.');
}

/** A name that no conversation has begins a new one. It may be a typo, so this lists the others. */
function drawOthers(terminal: Terminal, named: string, rows: ConversationRow[]): void {
  const ids = rows.map(({ id }) => id);
  terminal.hint(`"${named}" is a new conversation. ${didYouMean(named, ids, '')}`.trimEnd());
  if (!terminal.notesAreSeen) return;
  const columns = CONVERSATIONS.columns.map(({ drop: _, ...column }) => column);
  terminal.noteTable(...tableOf(columns, rows.slice(0, LISTED)));
  if (rows.length > LISTED) terminal.hint(`… and ${rows.length - LISTED} more`);
}

/** Message by message, until the user leaves. */
async function talk(conversation: Conversation, { terminal, connect, subject }: CommandContext): Promise<void> {
  const history: string[] = [];
  for (;;) {
    const line = await terminal.ask(terminal.noteStyle('cyan', PROMPT), history);
    if (line === null) return;
    if (line.trim() === '') continue;
    history.unshift(line);
    try {
      await conversation.turn(line);
    } catch (error) {
      if (error instanceof GatewayError && FINAL.has(error.status)) throw error;
      if (!(error instanceof GatewayError) && !(error instanceof CommandError)) throw error;
      await explainTo(terminal, error, connect(), subject);
    }
  }
}

async function explainTo(
  terminal: Terminal,
  error: unknown,
  ...rest: [ReturnType<CommandContext['connect']>, CommandContext['subject']]
): Promise<void> {
  const { explain } = await import('../../explain.ts');
  const { title, lines } = await explain(error, ...rest);
  terminal.failure(title, lines);
}

class Conversation {
  /** The workspace whose draft the agent works on; null in mode `data`. */
  workspace: string | null = null;
  readonly #context: CommandContext;
  readonly #name: ConversationName;
  /** Files that are sent with the next accepted message. */
  #files: Attachment[];

  constructor(context: CommandContext, name: ConversationName, files: Attachment[]) {
    this.#context = context;
    this.#name = name;
    this.#files = files;
  }

  /**
   * Runs one turn to its end, and resolves with the exit code. Ctrl-C stops the turn; a second one ends the process, and
   * the gateway then stops the turn, because its client is gone.
   */
  async turn(message: string): Promise<number> {
    const { args, terminal, connect } = this.#context;
    const client = connect(true);
    const drawing = new TurnDrawing(terminal);
    const leaving = new AbortController();
    const questions = new Questions(terminal);
    let turnId: string | null = null;
    const stop = (): void => {
      if (turnId === null)
        leaving.abort(new CommandError('Stopped before it began.', 'Nothing was sent. Send it again.'));
      else
        stopTurn(client, this.#name, turnId).catch(() =>
          leaving.abort(
            new CommandError('Stopped.', `See how it went: svc chat ${this.#name.app} --window ${this.#name.id}`),
          ),
        );
    };
    process.once('SIGINT', stop);
    let isOver = false;
    try {
      const sent = {
        // The gateway judges what the user typed.
        mode: args.text('mode') as ConversationRow['mode'] | undefined,
        attachments: this.#files,
        message,
        runner: args.text('runner'),
        model: args.text('model'),
      };
      const request = messageTo(this.#name, sent, leaving.signal);
      for await (const { data } of client.events(request)) {
        const event = JSON.parse(data) as TurnEvent;
        if (event.type === 'assistant.start') {
          turnId = event.turnId;
          this.workspace = event.sessionId ?? null;
          this.#files = [];
        }
        if (event.type === 'permission' && event.optionId === undefined && turnId !== null) {
          const question = { turnId, requestId: event.requestId };
          drawing.pause();
          questions.ask(event, (optionId) => answerQuestion(client, this.#name, { ...question, optionId }), stop);
        }
        const isKnown = event.type === 'permission.result' && (await questions.close(event.requestId));
        if (!isKnown || terminal.json) await this.#show(drawing, event);
        isOver = event.type === 'end';
      }
    } finally {
      drawing.pause();
      process.off('SIGINT', stop);
      await questions.end();
    }
    if (!isOver)
      throw new UnreachableError(
        'The gateway ended before the turn did.',
        `The conversation is kept: svc chat ${this.#name.app} --window ${this.#name.id}`,
      );
    if (!terminal.json) drawFiles(terminal, drawing.turn);
    return FAILED.has(drawing.turn.state) ? EXIT.failed : EXIT.ok;
  }

  async #show(drawing: TurnDrawing, event: TurnEvent): Promise<void> {
    const { terminal } = this.#context;
    if (terminal.json) {
      terminal.event(event);
      drawing.turn.take(event);
      return;
    }
    drawing.show(event);
    if (event.type === 'error') await this.#explain(event);
    if (event.type === 'webhooks') {
      drawMinted(terminal, event.minted as NewWebhook[]);
      drawPending(terminal, event.pending);
    }
  }

  /** Prints the error that ended a turn like one that refused it. */
  async #explain({ code, message }: { code: string; message: string }): Promise<void> {
    const { terminal, connect, subject } = this.#context;
    await explainTo(terminal, new GatewayError(500, { code, message }), connect(), subject);
  }
}

/** The questions of a turn, which are asked one at a time while the turn runs. */
class Questions {
  readonly #terminal: Terminal;
  /** Request id → aborts when the question is no longer open. */
  readonly #open = new Map<string, AbortController>();
  readonly #answered = new Set<string>();
  #asked: Promise<void> = Promise.resolve();

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** `answer` tells the gateway which option was chosen; `stop` ends the turn. */
  ask(question: Permission, answer: (optionId: string) => Promise<unknown>, stop: () => void): void {
    const closed = new AbortController();
    this.#open.set(question.requestId, closed);
    this.#asked = this.#asked.then(async () => {
      const optionId = await answerTo(this.#terminal, question, stop, closed.signal);
      if (optionId === null) return;
      this.#answered.add(question.requestId);
      // It may have been answered elsewhere, or too late.
      await answer(optionId).catch((error) => this.#terminal.hint((error as Error).message));
    });
  }

  /** Resolves after its prompt is gone, with whether it was answered here. */
  async close(requestId: string): Promise<boolean> {
    this.#open.get(requestId)?.abort();
    await setImmediate();
    return this.#answered.has(requestId);
  }

  async end(): Promise<void> {
    for (const closed of this.#open.values()) closed.abort();
    await this.#asked;
  }
}

/** The option that the user chooses, or without a terminal the one that rejects; null when the turn is over. */
async function answerTo(
  terminal: Terminal,
  { toolName, detail: asked, options }: Permission,
  stop: () => void,
  over: AbortSignal,
): Promise<string | null> {
  const detail = asked === toolName ? '' : ` ${asked}`;
  const refusal =
    options.find(({ kind }) => kind === 'reject_once') ?? options.find(({ kind }) => /^reject/.test(kind));
  if (terminal.json || !terminal.stdin.isTTY) {
    if (!terminal.json) terminal.warn(`${toolName}${detail}: refused, because there is no terminal to ask on.`);
    return refusal?.optionId ?? null;
  }
  const style = terminal.noteStyle;
  terminal.note(`${style('yellow', '?')} ${style('bold', toolName)}${detail}`);
  for (const [i, { label }] of options.entries()) terminal.note(`  ${style('cyan', String(i + 1))} ${label}`);
  while (!over.aborted) {
    const answer = await terminal.ask(`  1–${options.length} ${PROMPT}`, [], over);
    if (answer === null) {
      if (!over.aborted) stop();
      return null;
    }
    const option = /^\d+$/.test(answer.trim()) ? options[Number(answer) - 1] : undefined;
    if (option) return option.optionId;
  }
  return null;
}

function drawFiles(terminal: Terminal, { files }: Turn): void {
  for (const { path, status } of files.values())
    terminal.note(`  ${terminal.noteStyle('dim', status.padEnd(8))} ${path}`);
}

function drawDraft(terminal: Terminal, app: string, workspace: string): void {
  const of = `${app} --workspace ${workspace}`;
  terminal.hint(`What changed: svc diff ${of}`);
  terminal.hint(`Look at it: svc open ${of}`);
  terminal.hint(`Make it live: svc publish ${of}`);
}
