/**
 * The part of OpenClaw's plugin interface that this plugin uses (openclaw 2026.9.6, `docs/plugins/`). The package of the host is
 * 600 MB: where it is installed, a test compares its own types with these (`test/hosts/`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

export type HostConfig = {
  readonly gateway?: {
    readonly port?: number;
    readonly bind?: string;
    readonly auth?: { readonly mode?: string; readonly token?: unknown; readonly password?: unknown };
    readonly tls?: { readonly enabled?: boolean };
  };
  readonly agents?: {
    /** Its earlier form. */
    readonly list?: readonly { readonly id: string; readonly default?: boolean }[];
    readonly entries?: Readonly<Record<string, { readonly default?: boolean } | undefined>>;
  };
  readonly plugins?: {
    readonly entries?: Readonly<Record<string, { readonly config?: Readonly<Record<string, unknown>> } | undefined>>;
  };
};

/** A configuration that the host gave, on its way back: only the host's own type says all that is in it. */
// biome-ignore lint/suspicious/noExplicitAny: of which this is the part that is read
export type GivenConfig = any;

export type HostLogger = Record<'info' | 'warn' | 'error', (message: string) => void>;

export type HostTool = {
  name: string;
  label: string;
  description: string;
  // biome-ignore lint/suspicious/noExplicitAny: the host wants a schema of its own library's type, and takes any JSON Schema
  parameters: any;
  execute(
    toolCallId: string,
    params: unknown,
    signal?: AbortSignal,
  ): Promise<{ content: { type: 'text'; text: string }[]; details: unknown }>;
};

export type ToolContext = { agentId?: string; sessionKey?: string };

export type EmbeddedTurn = {
  sessionId: string;
  sessionKey: string;
  agentId: string;
  runId: string;
  workspaceDir: string;
  prompt: string;
  timeoutMs: number;
  extraSystemPrompt?: string;
  provider?: string;
  model?: string;
  thinkLevel?: 'low' | 'medium' | 'high' | 'xhigh' | 'max';
  images?: { type: 'image'; data: string; mimeType: string }[];
  toolsAllow?: string[];
  requireWorkspaceOnly?: true;
  disableMessageTool?: boolean;
  sessionPersistence?: 'durable' | 'detached';
  config: GivenConfig;
  disableToolSearch: true;
  codeModeOverride: false;
  abortSignal?: AbortSignal;
  /** Called before the `result` event of the call, without its id. */
  onAgentToolResult?: (event: { toolName: string; result: unknown; isError: boolean }) => void;
  onAgentEvent?: (event: { stream: string; data: Record<string, unknown> }) => void;
};

export type EmbeddedResult = {
  payloads?: { text?: string; isError?: boolean; isReasoning?: boolean; isCommentary?: boolean }[];
  meta: {
    aborted?: boolean;
    error?: { kind?: string; message?: string };
    agentMeta?: {
      provider?: string;
      model?: string;
      usage?: { input?: number; output?: number; cacheRead?: number; cacheWrite?: number };
    };
  };
};

export type PluginApi = {
  registrationMode: string;
  rootDir?: string;
  config: HostConfig;
  pluginConfig?: Record<string, unknown>;
  logger: HostLogger;
  runtime: {
    version: string;
    config: { current(): HostConfig };
    agent: {
      runEmbeddedAgent(turn: EmbeddedTurn): Promise<EmbeddedResult>;
      resolveAgentTimeoutMs(options: { cfg: GivenConfig }): number;
    };
  };
  registerHttpRoute(route: {
    path: string;
    auth: 'plugin';
    match: 'prefix';
    handler(req: IncomingMessage, res: ServerResponse): boolean;
  }): void;
  registerTool(make: (ctx: ToolContext) => HostTool, options: { name: string; optional: boolean }): void;
  registerService(service: {
    id: string;
    reload: { configPrefixes: string[] };
    start(ctx: ServiceContext): Promise<void>;
    stop(ctx: ServiceContext): Promise<void>;
  }): void;
  registerReload(policy: { hotPrefixes: string[] }): void;
  registerCli(
    registrar: (ctx: { program: CommandLine; config: HostConfig }) => void,
    options: { descriptors: { name: string; description: string; hasSubcommands: boolean }[] },
  ): void;
  on(
    hook: 'before_tool_call',
    handler: (
      event: { toolName: string; params: Record<string, unknown> },
      ctx: ToolContext,
    ) => { block: true; blockReason: string } | undefined,
    options: { matcher: readonly [string, ...string[]] },
  ): void;
};

export type ServiceContext = { config: HostConfig; stateDir: string; logger: HostLogger };

/** The part of commander's `Command` that a command which takes anything needs. */
export type CommandLine = {
  command(name: string): CommandLine;
  description(text: string): CommandLine;
  argument(name: string, description: string): CommandLine;
  allowUnknownOption(): CommandLine;
  helpOption(flags: false): CommandLine;
  action(run: () => Promise<void>): CommandLine;
};
