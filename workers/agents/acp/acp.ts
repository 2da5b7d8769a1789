/**
 * Runs any agent that speaks the Agent Client Protocol, version 1 (runner `acp`), with a program and a session for each
 * conversation.
 */
import { basename } from 'node:path';
import {
  type ClientConnection,
  client,
  methods,
  type NewSessionRequest,
  PROTOCOL_VERSION,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
} from '@agentclientprotocol/sdk';
import type {
  PermissionOption,
  ProbeOrder,
  ProbeResult,
  RunnerEvent,
  TurnOrder,
} from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { DraftFiles } from '../model/draft-files.ts';
import { TOOL_SERVER } from '../own-tools.ts';
import type { AgentProgram } from '../program.ts';
import type { Agent, Runner, RunnerHost, Turn } from '../runner.ts';
import { promptBlocks, takesTools } from './acp-prompt.ts';
import { acpStream } from './acp-stream.ts';
import {
  AcpUpdates,
  at,
  type Choice,
  choiceOf,
  listAt,
  nearestLevel,
  ownNameOf,
  textAt,
  toolNameOf,
  usageOf,
} from './acp-updates.ts';

/** An agent that is not signed in answers with this. */
const AUTH_REQUIRED = -32000;
/** Characters of a line that is no message, in the log and the event. */
const GARBAGE_CHARS = 200;
/** Programs that print their version faster than they start. */
const SAY_VERSION = new Set(['gemini', 'opencode']);

export const acpRunner: Runner = {
  async open(order, host) {
    const { runner, folder } = order;
    const agent = new AcpAgent(await start(runner, folder, host), host, order);
    await agent.open();
    return agent;
  },

  async probe(order, host) {
    const { runner, folder } = order;
    const [command = '', ...args] = runner.command ?? [];
    if (order.want === 'version' && args.length <= 1 && SAY_VERSION.has(basename(command))) {
      return await saidVersion(await start({ ...runner, command: [command, '--version'] }, folder, host));
    }
    // The protocol cannot list an agent's own tools.
    if (order.want === 'tools') return { tools: [] };
    const program = await start(runner, folder, host);
    try {
      return await new AcpAgent(program, host, { folder, mode: 'data', resume: null, gateway: null }).probe(order.want);
    } finally {
      await program.end();
    }
  },
};

/** What an agent needs of its conversation; without `gateway` it has no tools of an app. */
type Conversation = Pick<TurnOrder, 'folder' | 'mode' | 'resume'> & { gateway: TurnOrder['gateway'] | null };

async function start(runner: ProbeOrder['runner'], folder: string, host: RunnerHost): Promise<AgentProgram> {
  const [command, ...args] = runner.command ?? [];
  if (command === undefined) throw new SvcError('NO_RUNNER', `The runner ${runner.name} has no command.`);
  return await host.spawn({ command, args, cwd: runner.cwd ?? folder, env: {} });
}

async function saidVersion(program: AgentProgram): Promise<ProbeResult> {
  try {
    for await (const line of program.lines()) if (line.trim() !== '') return { version: line.trim() };
    throw program.failure();
  } finally {
    await program.end();
  }
}

class AcpAgent implements Agent {
  readonly #program: AgentProgram;
  readonly #host: RunnerHost;
  #conversation: Conversation;
  readonly #connection: ClientConnection;
  readonly #files: DraftFiles | null;
  #capabilities: unknown;
  #sessionId = '';
  #models: Choice | null = null;
  #thinking: Choice | null = null;
  /** The session's initial model and effort, for turns that name none. */
  #usual: { model: string | undefined; thinking: string | undefined } = { model: undefined, thinking: undefined };
  /** The agent has not got the grounding and history yet. */
  #isNew = false;
  #turn: { turn: Turn; updates: AcpUpdates } | null = null;
  /** Events being sent; the agent is not read from until they are taken. */
  #taken: Promise<void> = Promise.resolve();
  /** Work on files that it asked for. */
  readonly #filing = new Set<Promise<unknown>>();
  /** The session's cost before this turn; null when unknown. */
  #costUsd: number | null = null;

  constructor(program: AgentProgram, host: RunnerHost, conversation: Conversation) {
    this.#program = program;
    this.#host = host;
    this.#conversation = conversation;
    this.#files = conversation.mode === 'full' ? new DraftFiles(conversation.folder) : null;
    const stream = acpStream(program, { room: () => this.#taken, onGarbage: (line) => this.#garbage(line) });
    this.#connection = client({ name: 'svc' })
      // Updates are checked where they are used: the library's own check tries some fifteen shapes for each word.
      .onNotification(
        methods.client.session.update,
        (params: unknown) => params,
        ({ params }) => this.#update(params),
      )
      .onRequest(methods.client.session.requestPermission, ({ params }) => this.#permit(params))
      .onRequest(methods.client.fs.readTextFile, ({ params: { path, line, limit } }) =>
        this.#file((files) => ({ content: files.read(path, line ?? 1, limit ?? Number.POSITIVE_INFINITY) })),
      )
      .onRequest(methods.client.fs.writeTextFile, ({ params: { path, content } }) =>
        this.#file(async (files) => {
          await files.write(path, content);
          return {};
        }),
      )
      .connect(stream);
  }

  get isAlive(): boolean {
    return this.#program.ended === null && !this.#connection.signal.aborted;
  }

  async open(): Promise<void> {
    try {
      await this.#initialize();
      const { resume } = this.#conversation;
      if (resume === null || !(await this.#resume(resume))) await this.#begin();
    } catch (error) {
      throw await this.#explained(error);
    }
  }

  async turn(turn: Turn): Promise<void> {
    const { order, signal } = turn;
    await this.#renew(order);
    const updates = new AcpUpdates((event) => this.#put(event));
    this.#turn = { turn, updates };
    const cancel = () => void this.#notifyCancel();
    signal.addEventListener('abort', cancel, { once: true });
    try {
      this.#put({ type: 'session', id: this.#sessionId });
      const say = (phase: string, detail: string) => this.#put({ type: 'phase', phase, detail });
      await this.#choose(order, say);
      if (this.#isNew && !takesTools(this.#capabilities))
        say('limited', 'The agent takes no MCP servers over HTTP, so it does not have the tools of the app.');
      const prompt = await promptBlocks(order, this.#isNew, this.#capabilities, say);
      if (signal.aborted) return;
      const answer: unknown = await this.#agent.request(methods.agent.session.prompt, {
        sessionId: this.#sessionId,
        prompt,
      });
      this.#isNew = false;
      await this.#settled();
      this.#account(answer, updates, order);
      updates.finish();
      if (!signal.aborted) this.#conclude(textAt(answer, 'stopReason'), updates);
    } catch (error) {
      const explained = await this.#explained(error);
      if (!signal.aborted) throw explained;
    } finally {
      signal.removeEventListener('abort', cancel);
      updates.finish();
      await this.#taken;
      this.#turn = null;
      await Promise.allSettled(this.#filing);
    }
  }

  async end(): Promise<void> {
    await this.#program.end();
    this.#connection.close();
  }

  async probe(want: 'version' | 'models'): Promise<ProbeResult> {
    try {
      const version = await this.#initialize();
      if (want === 'version') return version === undefined ? {} : { version };
      await this.#begin();
      return { models: this.#models?.values ?? [], signedIn: true };
    } catch (error) {
      if (error instanceof RequestError && error.code === AUTH_REQUIRED) return { signedIn: false };
      throw await this.#explained(error);
    }
  }

  /** Opens the session again with the token of another turn; where the agent cannot, another one with what was said. */
  async #renew(order: TurnOrder): Promise<void> {
    const { gateway } = this.#conversation;
    if (gateway === null || gateway.token === order.gateway.token) return;
    this.#conversation = order;
    // Without the tools of the app there is nothing to open it for.
    if (!takesTools(this.#capabilities)) return;
    try {
      if (!(await this.#resume(this.#sessionId))) await this.#begin();
      await this.#settled();
    } catch (error) {
      throw await this.#explained(error);
    }
  }

  get #agent(): ClientConnection['agent'] {
    return this.#connection.agent;
  }

  /** The agent's version, if it reports one. */
  async #initialize(): Promise<string | undefined> {
    const reads = this.#files !== null;
    const answer: unknown = await this.#agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientInfo: { name: 'svc', version: '1' },
      clientCapabilities: { fs: { readTextFile: reads, writeTextFile: reads }, terminal: false },
    });
    const version = at(answer, 'protocolVersion');
    if (version !== PROTOCOL_VERSION)
      throw failed(`The agent speaks version ${version} of the Agent Client Protocol, not ${PROTOCOL_VERSION}.`);
    this.#capabilities = at(answer, 'agentCapabilities');
    return textAt(answer, 'agentInfo', 'version');
  }

  async #begin(): Promise<void> {
    const answer: unknown = await this.#agent.request(methods.agent.session.new, this.#surroundings());
    const id = textAt(answer, 'sessionId');
    if (id === undefined) throw failed('The agent did not say what it calls the new session.');
    this.#opened(id, answer);
    this.#isNew = true;
    this.#costUsd = 0;
  }

  /** False when the agent cannot resume, or has lost the session. */
  async #resume(sessionId: string): Promise<boolean> {
    const canResume = Boolean(at(this.#capabilities, 'sessionCapabilities', 'resume'));
    if (!canResume && at(this.#capabilities, 'loadSession') !== true) return false;
    const params = { sessionId, ...this.#surroundings() };
    try {
      const answer: unknown = canResume
        ? await this.#agent.request(methods.agent.session.resume, params)
        : await this.#agent.request(methods.agent.session.load, params);
      this.#opened(sessionId, answer);
      return true;
    } catch (error) {
      if (!(error instanceof RequestError) || error.code === AUTH_REQUIRED) throw error;
      this.#host.log('info', `The agent has lost a session, and begins anew: ${error.message}`);
      return false;
    }
  }

  #opened(id: string, answer: unknown): void {
    this.#sessionId = id;
    this.#models = choiceOf(answer, 'model');
    this.#thinking = choiceOf(answer, 'thought_level');
    this.#usual = { model: this.#models?.current, thinking: this.#thinking?.current };
  }

  #surroundings(): NewSessionRequest {
    const { folder, gateway } = this.#conversation;
    if (gateway === null || !takesTools(this.#capabilities)) return { cwd: folder, mcpServers: [] };
    const headers = [{ name: 'Authorization', value: `Bearer ${gateway.token}` }];
    return { cwd: folder, mcpServers: [{ type: 'http', name: TOOL_SERVER, url: gateway.url, headers }] };
  }

  /** Sets the model and the effort, as far as the agent offers them. Rejects for a model that it does not have. */
  async #choose({ model, runner, thinking }: TurnOrder, say: (phase: string, detail: string) => void): Promise<void> {
    const asked = model ?? runner.model;
    const wanted = asked ?? this.#usual.model;
    if (wanted !== undefined && this.#models !== null && this.#models.current !== wanted) {
      const known = this.#models.values.map(({ id }) => id);
      if (asked !== undefined && !known.includes(asked))
        throw failed(`The agent has no model ${wanted}. It has ${known.slice(0, 20).join(', ') || 'none'}.`);
      await this.#set(this.#models, wanted);
    }
    const levels = this.#thinking?.values.map(({ id }) => id) ?? [];
    const level = thinking === null ? this.#usual.thinking : nearestLevel(levels, thinking);
    if (thinking !== null && level === undefined)
      say('limited', `The agent cannot be told to think "${thinking}". It offers ${levels.join(', ') || 'no choice'}.`);
    if (this.#thinking && level !== undefined && level !== this.#thinking.current)
      await this.#set(this.#thinking, level);
  }

  async #set(choice: Choice, value: string): Promise<void> {
    const sessionId = this.#sessionId;
    if (choice.configId === null) await this.#agent.request('session/set_model', { sessionId, modelId: value });
    else {
      const { configId } = choice;
      const answer: unknown = await this.#agent.request(methods.agent.session.setConfigOption, {
        sessionId,
        configId,
        value,
      });
      // Another model may offer other levels.
      this.#thinking = choiceOf(answer, 'thought_level') ?? this.#thinking;
    }
    choice.current = value;
  }

  #update(params: unknown): void {
    // A loaded session sends its history again; we drop it.
    if (at(params, 'sessionId') === this.#sessionId) this.#turn?.updates.take(at(params, 'update'));
  }

  #put(event: RunnerEvent): void {
    const turn = this.#turn?.turn;
    if (turn) this.#taken = this.#taken.then(() => turn.emit(event)).catch(() => {});
  }

  /** Resolves when everything that came before an answer has been taken. */
  async #settled(): Promise<void> {
    // The library hands on what it read a few steps after it has settled the answer.
    await new Promise(setImmediate);
    await this.#taken;
  }

  /** Between turns the line is logged. In a turn it fails the turn, because it may have been part of it. */
  #garbage(line: string): void {
    const words = `The agent wrote a line that is no message: ${line.slice(0, GARBAGE_CHARS)}`;
    if (this.#turn) this.#connection.close(failed(words));
    else this.#host.log('warn', words);
  }

  async #notifyCancel(): Promise<void> {
    await this.#agent.notify(methods.agent.session.cancel, { sessionId: this.#sessionId }).catch(() => {});
  }

  /** Allows tools of the app and files of the draft; asks a person for everything else. */
  async #permit({ toolCall, options }: RequestPermissionRequest): Promise<RequestPermissionResponse> {
    const turn = this.#turn?.turn;
    if (!turn || turn.signal.aborted) return { outcome: { outcome: 'cancelled' } };
    const byKind = (...kinds: PermissionOption['kind'][]) =>
      kinds.flatMap((kind) => options.find((option) => option.kind === kind) ?? []).at(0)?.optionId ?? null;
    let optionId: string | null;
    if (this.#isOwn(toolCall)) optionId = byKind('allow_once', 'allow_always');
    else {
      const { title, rawInput } = toolCall;
      const command = textAt(rawInput, 'command') ?? (rawInput === undefined ? '' : JSON.stringify(rawInput));
      optionId = await turn.ask({
        toolName: toolNameOf(toolCall) ?? 'tool',
        detail: [...new Set([title ?? '', command])].filter((text) => text !== '').join('\n'),
        options: options.map(({ optionId, kind, name }) => ({ optionId, kind, label: name })),
      });
      optionId ??= turn.signal.aborted ? null : byKind('reject_once', 'reject_always');
    }
    return { outcome: optionId === null ? { outcome: 'cancelled' } : { outcome: 'selected', optionId } };
  }

  #isOwn(call: RequestPermissionRequest['toolCall']): boolean {
    // A command's name does not show what it does.
    if (call.kind === 'execute') return false;
    if (ownNameOf(call) !== null) return true;
    if (this.#files === null || !['read', 'edit', 'delete', 'move', 'search'].includes(call.kind ?? '')) return false;
    const paths = [...listAt(call, 'locations'), ...listAt(call, 'content')].flatMap(
      (each) => textAt(each, 'path') ?? [],
    );
    return paths.length > 0 && paths.every((path) => this.#files?.has(path));
  }

  async #file<T>(work: (files: DraftFiles) => T | Promise<T>): Promise<T> {
    const files = this.#files;
    if (!files || !this.#turn) throw new RequestError(-32601, 'There are no files.');
    const filing = (async () => work(files))();
    this.#filing.add(filing);
    try {
      return await filing;
    } catch (error) {
      throw new RequestError(-32602, error instanceof SvcError ? error.message : 'The file cannot be used.');
    } finally {
      this.#filing.delete(filing);
    }
  }

  #account(answer: unknown, updates: AcpUpdates, { model, runner }: TurnOrder): void {
    const usage = usageOf(answer) ?? {};
    // Agents report the cost of the whole session. For a resumed one the earlier cost is unknown.
    if (updates.costUsd !== undefined) {
      if (this.#costUsd !== null) usage.costUsd = Math.max(0, updates.costUsd - this.#costUsd);
      this.#costUsd = updates.costUsd;
    }
    if (Object.keys(usage).length === 0) return;
    const used = this.#models?.current ?? model ?? runner.model;
    this.#put({ type: 'usage', ...(used === undefined ? {} : { model: used }), ...usage });
  }

  #conclude(stopReason: string | undefined, updates: AcpUpdates): void {
    if (stopReason === 'end_turn') {
      this.#put({ type: 'final', text: updates.text });
      return;
    }
    const why = {
      max_tokens: 'its answer reached the limit of tokens',
      max_turn_requests: 'it asked its model as often as it may in one turn',
      refusal: 'it refuses to go on',
      cancelled: 'it was cancelled on its own side',
    }[stopReason ?? ''];
    throw failed(`The agent stopped: ${why ?? `it says "${stopReason}"`}.`);
  }

  /** The failure as the error of the turn. Ends a program that no longer answers. */
  async #explained(error: unknown): Promise<SvcError> {
    if (error instanceof SvcError && !this.#connection.signal.aborted) return error;
    if (error instanceof RequestError) {
      const details = textAt(error.data, 'details') ?? textAt(error.data, 'message');
      const words = [error.message, ...(details === undefined ? [] : [details])].join(': ');
      if (error.code !== AUTH_REQUIRED) return failed(`The agent failed: ${words}`);
      return failed(`The agent is not signed in: ${words}. Sign in with its own program first.`);
    }
    await this.#program.end();
    return error instanceof SvcError ? error : this.#program.failure();
  }
}

function failed(message: string): SvcError {
  return new SvcError('AGENT_FAILED', message);
}
