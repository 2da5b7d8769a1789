/**
 * Runs Claude Code (runner `claude-code`): one process for each conversation, over its protocol of JSON lines (`--input-format
 * stream-json`).
 */
import { randomUUID } from 'node:crypto';
import {
  type AgentModel,
  CLAUDE_CODE,
  INSTALL_CLAUDE_CODE,
  type PermissionOption,
  type ProbeOrder,
  type ProbeResult,
  type RunnerSpec,
  type TurnOrder,
} from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { listModels } from '../model-list.ts';
import { TOOL_SERVER } from '../own-tools.ts';
import type { AgentProgram } from '../program.ts';
import { versionReport } from '../program-version.ts';
import { fileText, historyText, promptFile } from '../prompt-parts.ts';
import type { Agent, Runner, RunnerHost, Turn } from '../runner.ts';
import { type ClaudeMessage, ClaudeProcess } from './claude-process.ts';
import { ClaudeTurn } from './claude-turn.ts';

const WANTED = { what: 'Claude Code', oldest: CLAUDE_CODE, install: `Install it: ${INSTALL_CLAUDE_CODE}` };

/** Read and written in its folder alone (`--restricted`); its shell asks each time. */
const FILE_TOOLS = ['Read', 'Glob', 'Grep', 'Edit', 'Write'];
const SHELL = 'Bash';
const FULL_TOOLS = [...FILE_TOOLS, SHELL].join(',');

const SETTINGS = {
  permissions: { allow: [`mcp__${TOOL_SERVER}`, ...FILE_TOOLS], ask: [SHELL] },
  // Without a sandbox the shell still runs: a person allowed each command.
  sandbox: { enabled: true, autoAllowBashIfSandboxed: false, allowUnsandboxedCommands: false },
};

const STREAM = [
  ...words('-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages'),
  // No settings, hooks, commands or MCP servers of its user or folder. It asks before anything else.
  ...words('--restricted --disable-slash-commands --strict-mcp-config --permission-prompt-tool stdio'),
  `--settings=${JSON.stringify(SETTINGS)}`,
];

/** Defaults that the runner's entry may override. */
const ENVIRONMENT = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  CLAUDE_CODE_MAX_RETRIES: '2',
  // A shell ends with its turn.
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
  // Keeps out its memory of other conversations and CLAUDE.md files.
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
  CLAUDE_CODE_DISABLE_CLAUDE_MDS: '1',
  // Otherwise the model does not see the tools of the app.
  ENABLE_TOOL_SEARCH: 'false',
};

/** Variables that it signs in with. */
const KEYS = words('ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN');

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

const ALLOW = 'allow';
const OPTIONS: PermissionOption[] = [
  { optionId: ALLOW, kind: 'allow_once', label: 'Allow once' },
  { optionId: 'reject', kind: 'reject_once', label: 'Deny' },
];
const DENIED = 'This was not allowed. Go on without it.';

export const claudeCode: Runner = { open, probe };

/** A lost session is replaced by a new one, which gets the earlier messages. */
async function open(order: TurnOrder, host: RunnerHost): Promise<Agent> {
  const { resume } = order;
  if (resume !== null) {
    const agent = await ClaudeAgent.open(order, `--resume=${resume}`, order.instructions, host);
    if (agent) return agent;
    host.log('info', `Claude Code does not have the session ${resume}: another one takes its place.`);
  }
  const instructions = [order.instructions, historyText(order.history)].filter(Boolean).join('\n\n');
  const agent = await ClaudeAgent.open(order, `--session-id=${randomUUID()}`, instructions, host);
  if (!agent) throw new SvcError('AGENT_FAILED', 'Claude Code did not begin a session.');
  return agent;
}

class ClaudeAgent implements Agent {
  readonly #process: ClaudeProcess;
  readonly #hasOwnServer: boolean;
  /** The current model; null for its default. */
  #model: string | null;
  #effort: string | null = null;
  #turn: { turn: Turn; claudeTurn: ClaudeTurn } | null = null;
  /** The token with which it reaches the tools of the app. */
  #token: string | null = null;
  /** The ids of its open requests. */
  readonly #asked = new Set<string>();

  /** Null when it lacks the session to resume. */
  static async open(
    order: TurnOrder,
    resumeId: string,
    instructions: string,
    host: RunnerHost,
  ): Promise<ClaudeAgent | null> {
    const { runner, mode } = order;
    const model = modelOf(order);
    const args = [
      resumeId,
      `--tools=${mode === 'full' ? FULL_TOOLS : ''}`,
      ...(model === null ? [] : [`--model=${model}`]),
    ];
    const program = await start(runner, [...STREAM, ...args], order.folder, host);
    const agent = new ClaudeAgent(program, order, model);
    try {
      const initialize = { appendSystemPrompt: instructions, systemPromptSnapshot: false };
      await agent.#process.request({ subtype: 'initialize', ...initialize });
      await agent.#useTools(order);
      return agent;
    } catch (error) {
      await program.end();
      if (/No conversation found/i.test(program.errorOutput)) return null;
      throw startFailure(error, program, runner);
    }
  }

  private constructor(program: AgentProgram, { runner }: TurnOrder, model: string | null) {
    this.#model = model;
    this.#hasOwnServer = runner.baseUrl !== undefined;
    this.#process = new ClaudeProcess(program, {
      onMessage: async (message) => {
        refuseWithoutTools(message);
        await this.#turn?.claudeTurn.take(message);
      },
      onRequest: (id, request) => void this.#permit(id, request).catch(() => {}),
      onRequestCancelled: (id) => this.#asked.delete(id),
      onLost: (error) => this.#turn?.claudeTurn.end(error),
    });
  }

  get isAlive(): boolean {
    return this.#process.isAlive;
  }

  async turn(turn: Turn): Promise<void> {
    const { order, signal } = turn;
    const claudeTurn = new ClaudeTurn({ emit: (event) => turn.emit(event), hasOwnServer: this.#hasOwnServer });
    const id = randomUUID();
    const stop = () => void this.#stop(claudeTurn, id);
    this.#turn = { turn, claudeTurn };
    try {
      await this.#useTools(order);
      await this.#choose(order);
      const message = { role: 'user', content: await contentOf(order) };
      if (signal.aborted) return;
      signal.addEventListener('abort', stop, { once: true });
      await this.#process.send({ type: 'user', uuid: id, message, parent_tool_use_id: null });
      await claudeTurn.ended;
    } finally {
      signal.removeEventListener('abort', stop);
      this.#turn = null;
    }
  }

  async end(): Promise<void> {
    await this.#process.program.end();
  }

  /** An interrupt drops a message that it has not begun, without a result. */
  async #stop(claudeTurn: ClaudeTurn, id: string): Promise<void> {
    claudeTurn.isStopped = true;
    try {
      const { cancelled } = await this.#process.request({ subtype: 'interrupt', cancel_queued: true });
      if (Array.isArray(cancelled) && cancelled.includes(id)) claudeTurn.end();
    } catch {
      // It has ended, and the turn with it.
    }
  }

  /** Given here, the token is neither in a file, nor in its environment, nor where every user may read its command line. */
  async #useTools({ gateway: { url, token } }: TurnOrder): Promise<void> {
    if (token === this.#token) return;
    const server = { type: 'http', url, headers: { Authorization: `Bearer ${token}` } };
    const { errors } = await this.#process.request({
      subtype: 'mcp_set_servers',
      servers: { [TOOL_SERVER]: server },
    });
    const error = isRecord(errors) ? errors[TOOL_SERVER] : undefined;
    if (error !== undefined) throw new SvcError('AGENT_FAILED', `Claude Code cannot use the app's tools: ${error}`);
    this.#token = token;
  }

  async #choose(order: TurnOrder): Promise<void> {
    const model = modelOf(order);
    const effort = order.thinking;
    if (model !== this.#model) await this.#process.request({ subtype: 'set_model', model: model ?? 'default' });
    this.#model = model;
    if (effort !== this.#effort) {
      await this.#process.request({ subtype: 'apply_flag_settings', settings: { effortLevel: effort } });
    }
    this.#effort = effort;
  }

  async #permit(id: string, { subtype, tool_name: name, input, tool_use_id: call }: ClaudeMessage): Promise<void> {
    const { turn, claudeTurn } = this.#turn ?? {};
    if (subtype !== 'can_use_tool' || !turn || !claudeTurn)
      return await this.#process.refuse(id, 'Nobody is there to ask.');
    this.#asked.add(id);
    const toolName = claudeTurn.toolName(String(name), call);
    const chosen = await turn.ask({ toolName, detail: detailOf(input), options: OPTIONS });
    if (!this.#asked.delete(id)) return;
    const isAllowed = chosen === ALLOW;
    const answer = isAllowed ? { behavior: 'allow', updatedInput: input } : { behavior: 'deny', message: DENIED };
    await this.#process.respond(id, answer);
  }
}

async function probe(
  { runner, want, folder }: ProbeOrder,
  host: RunnerHost,
  signal: AbortSignal,
): Promise<ProbeResult> {
  if (want === 'version') return versionReport(await versionOf(runner, folder, host), WANTED);
  if (want === 'models' && runner.baseUrl !== undefined) {
    // It always lists Anthropic's models, whatever server it uses.
    return { models: await listModels(`${serverOf(runner.baseUrl)}/v1`, keyOf(runner), signal) };
  }
  const args = ['--no-session-persistence', `--tools=${FULL_TOOLS}`];
  const program = await start(runner, [...STREAM, ...args], folder, host);
  try {
    return await asked(program, want);
  } catch (error) {
    throw startFailure(error, program, runner);
  } finally {
    await program.end();
  }
}

async function versionOf(runner: RunnerSpec, folder: string, host: RunnerHost): Promise<string> {
  const program = await start(runner, ['--version'], folder, host);
  try {
    for await (const line of program.lines()) {
      const version = /\d+\.\d+\.\d+\S*/.exec(line)?.[0];
      if (version !== undefined) return version;
    }
    await program.end();
    throw program.failure();
  } finally {
    await program.end();
  }
}

/** Its description of itself, before it asks any model. */
async function asked(program: AgentProgram, want: 'models' | 'tools'): Promise<ProbeResult> {
  let begun: (message: ClaudeMessage) => void = () => {};
  let lost: (error: SvcError) => void = () => {};
  const init = new Promise<ClaudeMessage>((resolve, reject) => {
    begun = resolve;
    lost = reject;
  });
  init.catch(() => {});
  const claude = new ClaudeProcess(program, {
    onMessage: async (message) => {
      if (message.subtype === 'init') begun(message);
    },
    onRequest: () => {},
    onRequestCancelled: () => {},
    onLost: lost,
  });
  const { models, account } = await claude.request({ subtype: 'initialize' });
  const signedIn = isSignedIn(account);
  if (want === 'models') return { models: modelsOf(models), ...(signedIn === undefined ? {} : { signedIn }) };
  // It lists its tools when a turn begins; a command does not reach a model.
  await claude.send({ type: 'user', message: { role: 'user', content: '/help' }, parent_tool_use_id: null });
  const { tools } = await init;
  return { tools: Array.isArray(tools) ? tools.map((name) => ({ name: String(name) })) : [] };
}

function modelsOf(models: unknown): AgentModel[] {
  if (!Array.isArray(models)) return [];
  return models.filter(isRecord).map(({ value, displayName, description }) => ({
    id: String(value),
    ...(typeof displayName === 'string' ? { name: displayName } : {}),
    ...(typeof description === 'string' ? { description } : {}),
    ...(value === 'default' ? { isDefault: true } : {}),
  }));
}

function isSignedIn(account: unknown): boolean | undefined {
  if (!isRecord(account)) return undefined;
  const sources = [account.tokenSource, account.apiKeySource];
  return sources.some((source) => typeof source === 'string' && source !== 'none');
}

async function start(runner: RunnerSpec, args: string[], cwd: string, host: RunnerHost): Promise<AgentProgram> {
  const [command = 'claude', ...first] = runner.command ?? [];
  try {
    return await host.spawn({ command, args: [...first, ...args], cwd, env: environmentOf(runner) });
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'NO_RUNNER') throw error;
    throw new SvcError('NO_RUNNER', `${error.message} ${WANTED.install}`);
  }
}

function startFailure(error: unknown, program: AgentProgram, { command }: RunnerSpec): unknown {
  if (!/unknown option/i.test(program.errorOutput)) return error;
  const name = command?.[0] ?? 'claude';
  return new SvcError('NO_RUNNER', `The program ${name} is too old for this gateway. ${WANTED.install}`);
}

function environmentOf({ baseUrl, env }: RunnerSpec): Record<string, string> {
  if (baseUrl === undefined) return { ...ENVIRONMENT, ...env };
  // A custom server never gets the user's sign-in.
  const key = keyOf({ env }) === undefined ? { ANTHROPIC_API_KEY: 'none' } : {};
  return { ...ENVIRONMENT, ...env, ...key, ANTHROPIC_BASE_URL: serverOf(baseUrl) };
}

function keyOf({ env }: Pick<RunnerSpec, 'env'>): string | undefined {
  return KEYS.map((name) => env[name]).find(Boolean);
}

/** It puts `/v1` behind the address itself. */
function serverOf(baseUrl: string): string {
  return baseUrl.replace(/(?:\/v1)?\/?$/, '');
}

/** Without them it would go on, and the model would say that the app has no tools. */
function refuseWithoutTools({ subtype, mcp_servers: servers }: ClaudeMessage): void {
  if (subtype !== 'init' || !Array.isArray(servers)) return;
  const status = servers.filter(isRecord).find(({ name }) => name === TOOL_SERVER)?.status;
  if (status === 'failed' || status === 'needs-auth') {
    throw new SvcError('AGENT_FAILED', `Claude Code lost the app's tools (${status}).`);
  }
}

function modelOf({ model, runner }: TurnOrder): string | null {
  return model ?? runner.model ?? null;
}

/** The message comes last. */
async function contentOf({ notice, message, attachments }: TurnOrder): Promise<ClaudeMessage[]> {
  const files: ClaudeMessage[] = [];
  for (const attachment of attachments) {
    const file = await promptFile(attachment);
    if (file.kind === 'text') files.push({ type: 'text', text: fileText(file.name, file.text) });
    else if (file.kind === 'binary') files.push(blockOf(file));
    else files.push({ type: 'text', text: fileText(file.name, `This file is missing: ${file.why}.`) });
  }
  // What begins with a slash would be a command to the program.
  if (notice !== undefined) files.push({ type: 'text', text: notice });
  return [...files, { type: 'text', text: message.startsWith('/') ? `\n${message}` : message }];
}

function blockOf({ name, type, bytes }: { name: string; type: string; bytes: Buffer }): ClaudeMessage {
  const source = { type: 'base64', media_type: type, data: bytes.toString('base64') };
  if (IMAGES.includes(type)) return { type: 'image', source };
  if (type === 'application/pdf') return { type: 'document', source };
  return { type: 'text', text: fileText(name, `This file is missing: Claude Code does not take ${type}.`) };
}

/** The action it asks for, as text for people. */
function detailOf(input: unknown): string {
  const { command, file_path: path } = isRecord(input) ? input : {};
  if (typeof command === 'string') return command;
  return typeof path === 'string' ? path : JSON.stringify(input ?? {});
}

function words(text: string): string[] {
  return text.split(' ');
}
