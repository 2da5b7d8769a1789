/**
 * Runs OpenAI's Codex (runner `codex`): one program for each conversation, over its app-server protocol. Its sign-in and
 * conversations are in its user's home; the gateway decides what it may do.
 */
import type { AgentModel, RunnerSpec, TurnOrder } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { listModels } from '../model-list.ts';
import { TOOL_SERVER } from '../own-tools.ts';
import type { AgentProgram } from '../program.ts';
import { versionFault, versionReport } from '../program-version.ts';
import { fileText, historyText, promptFile } from '../prompt-parts.ts';
import type { Agent, Runner, RunnerHost, Turn } from '../runner.ts';
import {
  keyOf,
  OWN_PROVIDER,
  programFolders,
  serverArguments,
  threadSettings,
  tokenEnvironment,
} from './codex-settings.ts';
import { CodexTurn, type TokenCounts } from './codex-turn.ts';
import { JsonRpc, type Params, RpcError, type RpcListener } from './json-rpc.ts';

/** The oldest version known to have this protocol and these settings. */
const OLDEST = '0.169.0';
const HOW_TO_INSTALL =
  'Install Codex with `npm install -g @openai/codex`, or name its program in "command" of the runner.';
const WANTED = { what: 'Codex', oldest: OLDEST, install: HOW_TO_INSTALL };

export const codexRunner: Runner = {
  async open(order, host) {
    const server = await CodexServer.start(order.runner, order.folder, tokenEnvironment(order), host);
    const { isSignedIn, otherServers } = await server.readAccount();
    const { runner } = order;
    if (!isSignedIn && runner.baseUrl === undefined && keyOf(runner) === undefined) {
      throw new SvcError(
        'AGENT_FAILED',
        'Codex is not signed in. Run `codex login` as the user of the gateway, or give the runner a key with "apiKeyEnv".',
      );
    }
    const isOwn = runner.baseUrl !== undefined || !isSignedIn;
    return await openThread(order, server, { otherServers, provider: isOwn ? OWN_PROVIDER : null });
  },

  async probe({ runner, want, folder }, host, signal) {
    if (want === 'version') return versionReport(await versionOf(runner, folder, host), WANTED);
    // It has no list of its own tools, and the MCP servers of its user's settings are off in turns.
    if (want === 'tools') return { tools: [] };
    // Codex always lists OpenAI's models, whatever server it uses.
    if (runner.baseUrl !== undefined) return { models: await listModels(runner.baseUrl, keyOf(runner), signal) };
    const server = await CodexServer.start(runner, folder, {}, host);
    const { isSignedIn } = await server.readAccount();
    const models = await server.models();
    await server.end();
    return { models, signedIn: isSignedIn || keyOf(runner) !== undefined };
  },
};

/** An initialized app-server. */
class CodexServer {
  readonly program: AgentProgram;
  readonly rpc: JsonRpc;
  /** The current turn. */
  turn: CodexTurn | null = null;

  private constructor(program: AgentProgram) {
    this.program = program;
    const listener: RpcListener = {
      onNotification: async (method, params) => await this.turn?.onNotification(method, params),
      onRequest: async (method, params) => (this.turn ? await this.turn.onRequest(method, params) : null),
      onLost: (error) => this.turn?.fail(error),
    };
    this.rpc = new JsonRpc(program, listener);
  }

  static async start(
    spec: RunnerSpec,
    folder: string,
    env: Record<string, string>,
    host: RunnerHost,
  ): Promise<CodexServer> {
    const server = new CodexServer(await spawn(spec, folder, serverArguments(spec), env, host));
    const { userAgent } = await server.rpc.call('initialize', {
      clientInfo: { name: 'svc', title: 'svc', version: '1' },
      capabilities: { experimentalApi: true },
    });
    checkVersion(/\/(\d+\.\d+\.\d+)/.exec(String(userAgent))?.[1]);
    await server.rpc.notify('initialized');
    return server;
  }

  /** Whether it believes it can reach a model, and its user's MCP servers. */
  async readAccount(): Promise<{ isSignedIn: boolean; otherServers: string[] }> {
    const [{ account, requiresOpenaiAuth }, { config }] = await Promise.all([
      this.rpc.call('account/read', {}),
      this.rpc.call('config/read', {}),
    ]);
    const servers = (config as { mcp_servers?: object } | undefined)?.mcp_servers ?? {};
    return {
      isSignedIn: account !== null || requiresOpenaiAuth === false,
      otherServers: Object.keys(servers).filter((name) => name !== TOOL_SERVER),
    };
  }

  async models(): Promise<AgentModel[]> {
    const { data } = await this.rpc.call('model/list', {});
    const models = data as {
      model: string;
      displayName: string;
      description: string;
      hidden: boolean;
      isDefault: boolean;
    }[];
    return models
      .filter(({ hidden }) => !hidden)
      .map(({ model, displayName, description, isDefault }) => ({
        id: model,
        name: displayName,
        description,
        isDefault,
      }));
  }

  async end(): Promise<void> {
    await this.program.end();
  }
}

type ThreadWish = { otherServers: string[]; provider: string | null };

/** Resumes the thread of the conversation, or starts one with the earlier messages. */
async function openThread(order: TurnOrder, server: CodexServer, wish: ThreadWish): Promise<Agent> {
  const settings = {
    ...threadSettings(order, programFolders(server.program.pid), wish.otherServers),
    modelProvider: wish.provider,
    model: order.runner.model ?? null,
  };
  const { instructions, resume, history } = order;
  if (resume !== null) {
    try {
      const params = { ...settings, threadId: resume, developerInstructions: instructions, excludeTurns: true };
      return new CodexAgent(server, await server.rpc.call('thread/resume', params));
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      // The conversation is gone or unreadable.
    }
  }
  const developerInstructions = [instructions, historyText(history)].filter(Boolean).join('\n\n');
  try {
    return new CodexAgent(server, await server.rpc.call('thread/start', { ...settings, developerInstructions }));
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    throw new SvcError('AGENT_FAILED', `Codex could not begin the conversation: ${error.message}`);
  }
}

class CodexAgent implements Agent {
  readonly #server: CodexServer;
  readonly #threadId: string;
  readonly #model: unknown;
  /** The effort for turns without one; null leaves it to the model. */
  readonly #usualEffort: string | null;
  /** As the last turn had it. */
  #effort: string | null;
  readonly #provider: string;
  #used: TokenCounts | null = null;

  constructor(server: CodexServer, { thread, model, modelProvider, reasoningEffort }: Params) {
    this.#server = server;
    this.#threadId = (thread as { id: string }).id;
    this.#model = model;
    this.#usualEffort = (reasoningEffort as string | null | undefined) ?? null;
    this.#effort = this.#usualEffort;
    this.#provider = String(modelProvider);
  }

  get isAlive(): boolean {
    return this.#server.rpc.isAlive;
  }

  async turn(turn: Turn): Promise<void> {
    const { order, signal } = turn;
    await turn.emit({ type: 'session', id: this.#threadId });
    const input = await inputOf(order);
    const codexTurn = new CodexTurn(turn, this.#used);
    this.#server.turn = codexTurn;
    // What a turn does not name falls back to the conversation's start, not to the previous turn.
    const model = order.model ?? this.#model;
    try {
      const effort = order.thinking ?? this.#usualEffort;
      const params = { input, ...this.#withEffort(String(model), effort) };
      this.#effort = effort;
      await this.#run(codexTurn, params, signal);
      await codexTurn.account({ model: String(model), provider: this.#provider });
      if (!signal.aborted) await codexTurn.finish();
    } finally {
      if (order.mode === 'full') await this.#endCommands();
      this.#server.turn = null;
      this.#used = codexTurn.used;
    }
  }

  /** It lets commands go on behind a turn, and their output into the next one. */
  async #endCommands(): Promise<void> {
    const { rpc } = this.#server;
    if (rpc.isAlive) await rpc.call('thread/backgroundTerminals/clean', { threadId: this.#threadId }).catch(() => {});
  }

  async end(): Promise<void> {
    await this.#server.end();
  }

  /** A null effort would keep the previous turn's; only a mode resets it. */
  #withEffort(model: string, effort: string | null): Params {
    if (effort !== null || this.#effort === null) return { model, effort };
    const settings = { model, reasoning_effort: null, developer_instructions: '' };
    return { collaborationMode: { mode: 'default', settings } };
  }

  async #run(codexTurn: CodexTurn, params: Params, signal: AbortSignal): Promise<void> {
    const { rpc } = this.#server;
    const threadId = this.#threadId;
    if (signal.aborted) return;
    const started = rpc.call('turn/start', { threadId, ...params });
    const interrupt = async (): Promise<void> => {
      const { turn } = await started;
      await rpc.call('turn/interrupt', { threadId, turnId: (turn as { id: string }).id });
    };
    // It refuses when the turn has ended or never began.
    const abort = () => void interrupt().catch(() => {});
    signal.addEventListener('abort', abort, { once: true });
    try {
      await started;
      await codexTurn.completed;
    } catch (error) {
      if (error instanceof RpcError)
        throw new SvcError('AGENT_FAILED', `Codex did not begin the turn: ${error.message}`);
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}

/** Files first: the message is what the model reads last. */
async function inputOf({ notice, message, attachments }: TurnOrder): Promise<Params[]> {
  const text = (words: string): Params => ({ type: 'text', text: words, text_elements: [] });
  const files = attachments.map(async (attachment): Promise<Params> => {
    if (attachment.type.startsWith('image/')) return { type: 'localImage', path: attachment.path };
    const file = await promptFile(attachment);
    if (file.kind === 'text') return text(fileText(file.name, file.text));
    const why = file.kind === 'left' ? file.why : `it is of the type ${file.type}`;
    return text(`The file ${JSON.stringify(file.name)} that goes with the message is left out: ${why}.`);
  });
  const notices = notice === undefined ? [] : [text(notice)];
  return [...(await Promise.all(files)), ...notices, text(message)];
}

async function versionOf(spec: RunnerSpec, folder: string, host: RunnerHost): Promise<string> {
  const program = await spawn(spec, folder, ['--version'], {}, host);
  let said = '';
  for await (const line of program.lines()) said += `${line}\n`;
  await program.end();
  const version = /\d+\.\d+\.\d+\S*/.exec(said)?.[0];
  if (version === undefined) throw program.failure();
  return version;
}

function checkVersion(version: string | undefined): void {
  const unknown = `This is no Codex, or one too old to say its version; ${OLDEST} or newer is needed. ${HOW_TO_INSTALL}`;
  const fault = version === undefined ? unknown : versionFault(version, WANTED);
  if (fault !== null) throw new SvcError('AGENT_FAILED', fault);
}

async function spawn(
  { command = ['codex'] }: RunnerSpec,
  cwd: string,
  args: string[],
  env: Record<string, string>,
  host: RunnerHost,
): Promise<AgentProgram> {
  const [program = 'codex', ...before] = command;
  try {
    return await host.spawn({ command: program, args: [...before, ...args], cwd, env });
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'NO_RUNNER') throw error;
    throw new SvcError('NO_RUNNER', `${error.message} ${HOW_TO_INSTALL}`);
  }
}
