/**
 * Types of agents: the order that a runner gets for a turn, and the events that it yields, as schemas. The supervisor, the agents process
 * and a host's own runner exchange them (specification, "Events of turns").
 */

import { flag, listOf, type Of, object, oneOf, text, textOrNull } from '../shapes/schema.ts';
import type { ToolServerSettings } from './tool-server-entries.ts';

export const RUNNER_KINDS = ['codex', 'claude-code', 'acp', 'model'] as const;
export type RunnerKind = (typeof RUNNER_KINDS)[number];

/**
 * Whether a runner of the kind enforces mode `data`: its program sees to it, or we do, that an agent has the tools of its app and
 * nothing else (specification, "Runners of pages"). An ACP program does as it likes, and asks when it likes.
 */
export const ENFORCES_DATA: Record<RunnerKind, boolean> = { codex: true, 'claude-code': true, acp: false, model: true };

/** Runners that need no configuration if PATH has their program, the preferred one first. Each has the kind of its name. */
export const BUILT_IN_RUNNERS = ['codex', 'claude-code'] as const satisfies RunnerKind[];

/**
 * The oldest version of Claude Code that is known to work. Without a version npm on Node 20 picks an older one, because of the
 * `engines` of its package; the program itself needs no Node.
 */
export const CLAUDE_CODE = '2.1.329';
export const INSTALL_CLAUDE_CODE = `npm install -g @anthropic-ai/claude-code@${CLAUDE_CODE}`;

/** The protocol of a model server: Chat Completions, Responses or Messages. */
export const MODEL_APIS = ['chat', 'responses', 'messages'] as const;
export type ModelApi = (typeof MODEL_APIS)[number];

/** How a request for permission is answered when an agent wants anything but a tool of its app or a file of its draft. */
export const PERMISSION_POLICIES = ['ask', 'allow', 'deny'] as const;
export type PermissionPolicy = (typeof PERMISSION_POLICIES)[number];

/** An entry of `runners` in the configuration. */
export type RunnerEntry = {
  kind: RunnerKind;
  /** The program and its arguments; by default the one of the kind on PATH. Not allowed for `model`. */
  command?: string[];
  env?: Record<string, string>;
  model?: string;
  baseUrl?: string;
  api?: ModelApi;
  /** The variable of the gateway's environment that holds the key of the model server. */
  apiKeyEnv?: string;
  permission?: PermissionPolicy;
  cwd?: string;
};

/** `data`: the app's tools and its tables. `full`: also the files of a draft. */
export const CHAT_MODES = ['data', 'full'] as const;
export type ChatMode = (typeof CHAT_MODES)[number];

/**
 * How much a model is to think, the least first. Where its server or agent has fewer levels, the highest ones share a level.
 */
export const THINKING_LEVELS = ['low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ThinkingLevel = (typeof THINKING_LEVELS)[number];

/** A runner as the agents process gets it: with its name, whole environment and key. */
export type RunnerSpec = Omit<RunnerEntry, 'apiKeyEnv' | 'env'> & {
  name: string;
  /** The environment of its program, without what the process adds (the turn's tag and token). */
  env: Record<string, string>;
  /** The variable of `env` that holds the key which `apiKeyEnv` names. */
  keyVariable?: string;
  /** The key of the model server, for `model` only. Other kinds read it from their environment. */
  apiKey?: string;
};

/** A file attached to a message: bytes on disk that the agent's process may read. */
export type TurnAttachment = { name: string; type: string; path: string };

/** A tool that an agent called for an answer; `args` is an object. Long ones are cut, and say so. */
export type CalledTool = { toolName: string; args: Record<string, unknown>; ok: boolean; result: string };

/** An earlier message, or an answer with the tools that were called for it. */
export type EarlierMessage = { role: 'user' | 'assistant'; text: string; tools?: CalledTool[] };

/** One turn for a runner in the process of agents. */
export type TurnOrder = {
  turnId: string;
  /** `svc-chat:<appId>:w<windowId>` and the like: one agent process serves the turns of one conversation. */
  conversation: string;
  runner: RunnerSpec;
  mode: ChatMode;
  app: string;
  /** The session of the draft that the agent works in, or whose tools it has; absent for the live app. */
  draft?: string;
  /** The agent's working folder: the draft of the app in mode `full`, else an empty folder of the conversation. */
  folder: string;
  /** The instructions before the first message: the app, its tools and tables, and how to work. */
  instructions: string;
  /** What the gateway tells the agent before the message, such as what is wrong with the draft. */
  notice?: string;
  message: string;
  attachments: TurnAttachment[];
  model: string | null;
  thinking: ThinkingLevel | null;
  /** The id of the agent's own session, from the last `session` event; null in the first turn. */
  resume: string | null;
  /** Earlier messages, oldest first: for runners that keep none, and for lost sessions. */
  history: EarlierMessage[];
  /** The first turn: a warm agent of a deleted conversation of this name must not take it. */
  begins?: boolean;
  /** The MCP server of the app, and the token of this turn, which is valid while it runs. */
  gateway: { url: string; token: string };
  permission: PermissionPolicy;
  /** This is the only turn of the conversation: its agent ends with it. */
  once?: boolean;
};

/** Conversations that have ended: those whose orders have the same values for all of these members. */
export type AgentScope = Partial<Pick<TurnOrder, 'conversation' | 'app' | 'draft'>>;

export const PERMISSION_OPTION_KINDS = ['allow_once', 'allow_always', 'reject_once', 'reject_always'] as const;

/** Named as in the Agent Client Protocol. */
const OPTION = object({ optionId: text, kind: oneOf(...PERMISSION_OPTION_KINDS), label: text });
export type PermissionOption = Of<typeof OPTION>;

const AMOUNT = { type: 'number', minimum: 0 } as const;
/** `inputTokens` has those from a cache too. */
const USAGE = {
  model: text,
  provider: text,
  inputTokens: AMOUNT,
  outputTokens: AMOUNT,
  cacheReadTokens: AMOUNT,
  cacheWriteTokens: AMOUNT,
  costUsd: AMOUNT,
} as const;
const TURN_USAGE = object({}, USAGE);
export type TurnUsage = Of<typeof TURN_USAGE>;

const TOOL = { toolCallId: text, toolName: text } as const;
/** What a runner yields, in order. Each `tool.start` has its `tool.result`; `final` comes at most once. Other members are allowed. */
export const RUNNER_EVENTS = {
  /** The id of the agent's own session, with which it is resumed. */
  session: object({ type: { const: 'session' }, id: text }),
  'assistant.delta': object({ type: { const: 'assistant.delta' }, delta: text }),
  'reasoning.delta': object({ type: { const: 'reasoning.delta' }, delta: text }),
  'tool.start': object({ type: { const: 'tool.start' }, ...TOOL }, { args: {}, sql: text }),
  /**
   * On success `result`: the text that the tool answered, which is JSON for tools of an app; else `errorText`. A host's own runner may
   * give any JSON value.
   */
  'tool.result': object({ type: { const: 'tool.result' }, ...TOOL, ok: flag }, { result: {}, errorText: text }),
  /** With `optionId` (null means "no") the runner's policy has already answered, so no one is asked. */
  permission: object(
    { type: { const: 'permission' }, requestId: text, toolName: text, detail: text, options: listOf(OPTION) },
    { optionId: textOrNull },
  ),
  phase: object({ type: { const: 'phase' }, phase: text }, { detail: text }),
  usage: object({ type: { const: 'usage' } }, USAGE),
  final: object({ type: { const: 'final' }, text }),
  error: object({ type: { const: 'error' }, code: text, message: text }),
} as const;
export type RunnerEvent = Of<(typeof RUNNER_EVENTS)[keyof typeof RUNNER_EVENTS]>;

const { session: _ofRunner, ...SHOWN } = RUNNER_EVENTS;
/** What clients get: `assistant.start`, a runner's events and those that the gateway adds, `end`. Each has `id: <seq>`. */
export const TURN_EVENTS = {
  'assistant.start': object(
    { type: { const: 'assistant.start' }, turnId: text, runner: text },
    { model: text, sessionId: text },
  ),
  ...SHOWN,
  /** A file that the turn changed in the draft. */
  file: object({ type: { const: 'file' }, path: text, status: oneOf('added', 'changed', 'removed') }),
  /** `minted`: new webhooks with their secrets. `pending`: webhooks that publishing will create. */
  webhooks: object(
    { type: { const: 'webhooks' }, minted: listOf({}) },
    { pending: listOf(object({ automationId: text, ownerApp: text })) },
  ),
  /** The answer to a `permission`; null when no one answered in time or the turn ended. */
  'permission.result': object({
    type: { const: 'permission.result' },
    requestId: text,
    optionId: textOrNull,
    ok: flag,
  }),
  aborted: object({ type: { const: 'aborted' } }),
  end: object({ type: { const: 'end' } }),
} as const;
export type TurnEvent = Of<(typeof TURN_EVENTS)[keyof typeof TURN_EVENTS]>;

/** Asks a runner for its version (without a session), its models or its own tools. */
export type ProbeOrder = { runner: RunnerSpec; want: 'version' | 'models' | 'tools'; folder: string };
/** Models as the picker shows them. */
export const MODEL = object({ id: text }, { name: text, description: text, isDefault: flag });
export type AgentModel = Of<typeof MODEL>;
export type HostTool = { name: string; description?: string };
export type ProbeResult = {
  version?: string;
  /** Why a program of this version cannot be used, with what to do. */
  fault?: string;
  models?: AgentModel[];
  tools?: HostTool[];
  /** Absent where the agent does not say. */
  signedIn?: boolean;
};

/** The one line of JSON that the process of agents reads from its standard input. The process ends when that input ends. */
export type AgentsBootstrap = {
  supervisorSocket: string;
  ticket: string;
  /**
   * Identifies this data directory. Every process of an agent has `SVC_AGENT=<tag>.<number of the program>` in its environment.
   */
  tag: string;
  maxAgents: number;
  /** Time without a turn after which an agent is ended, milliseconds. */
  idleMs: number;
  toolServers: ToolServerSettings;
};
