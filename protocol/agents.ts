/**
 * Agents: what a runner is told of a turn and says about it, on its way between the supervisor, the process of agents and a
 * host's own runner (specification, "Chat stream"; decisions, sections 8 and 12).
 */

export const RUNNER_KINDS = ['codex', 'claude-code', 'acp', 'model'] as const;
export type RunnerKind = (typeof RUNNER_KINDS)[number];

/** The runners, each of the kind of its name, that are there without configuration where PATH has their program; in this order. */
export const BUILT_IN_RUNNERS = ['codex', 'claude-code'] as const satisfies RunnerKind[];

/** The protocol of a model server: Chat Completions, Responses or Messages. */
export const MODEL_APIS = ['chat', 'responses', 'messages'] as const;
export type ModelApi = (typeof MODEL_APIS)[number];

/** What an agent may do that is neither a tool of its app nor a file of its draft. */
export const PERMISSION_POLICIES = ['ask', 'allow', 'deny'] as const;
export type PermissionPolicy = (typeof PERMISSION_POLICIES)[number];

/** An entry of `runners` in the configuration. */
export type RunnerEntry = {
  kind: RunnerKind;
  /** The program and its arguments; by default the one of the kind on PATH. Of no use for `model`. */
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

/** `data`: the tools of the app and of its tables. `full`: the files of a draft too. */
export const CHAT_MODES = ['data', 'full'] as const;
export type ChatMode = (typeof CHAT_MODES)[number];

/** A runner as the process of agents gets it: complete, with nothing left to look up. */
export type RunnerSpec = Omit<RunnerEntry, 'apiKeyEnv' | 'env'> & {
  name: string;
  /** All of the environment that its program gets, apart from what the process adds (the turn's tag and token). */
  env: Record<string, string>;
  /** The key of the model server; for `model` only, others read it from their environment. */
  apiKey?: string;
};

/** A file that goes with a message: bytes on disk, which the agent's process may read. */
export type TurnAttachment = { name: string; type: string; path: string };

/** One turn for a runner in the process of agents. */
export type TurnOrder = {
  turnId: string;
  /** `svc-chat:<appId>:w<windowId>` and the like: one agent process serves the turns of one conversation. */
  conversation: string;
  runner: RunnerSpec;
  mode: ChatMode;
  app: string;
  /** Where the agent works: the draft of the app in mode `full`, else an empty folder of the conversation. */
  folder: string;
  /** What the agent is told of its surroundings, before the first message. */
  instructions: string;
  message: string;
  attachments: TurnAttachment[];
  model: string | null;
  thinking: string | null;
  /** What the agent called its own session in the last turn, from `session`; null in the first one. */
  resume: string | null;
  /** What was said before, oldest first: for runners that keep nothing, and for sessions that are lost. */
  history: { role: 'user' | 'assistant'; text: string }[];
  /** Nothing was said before: an agent that had a conversation of this name, which was deleted, is not the one to ask. */
  begins?: boolean;
  /** The MCP server of the app, and a token that is good for this conversation while a turn of it runs. */
  gateway: { url: string; token: string };
  permission: PermissionPolicy;
  /** Nothing follows in this conversation: its agent ends with the turn. */
  once?: boolean;
};

/** Names as in the specification's MCP and ACP vocabulary. */
export type PermissionOption = {
  optionId: string;
  kind: 'allow_once' | 'allow_always' | 'reject_once' | 'reject_always';
  label: string;
};

export type TurnUsage = {
  model?: string;
  provider?: string;
  /** All of them, those from a cache too. */
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  costUsd?: number;
};

/** What a runner yields, in the order in which it happens. Each `tool.start` has its `tool.result`; `final` comes once at most. */
export type RunnerEvent =
  /** The agent's own name for the conversation, to resume it with. */
  | { type: 'session'; id: string }
  | { type: 'assistant.delta'; delta: string }
  | { type: 'reasoning.delta'; delta: string }
  | { type: 'tool.start'; toolCallId: string; toolName: string; args?: unknown; sql?: string }
  | { type: 'tool.result'; toolCallId: string; toolName: string; ok: boolean; result?: unknown; errorText?: string }
  /** With `optionId`, null for "no", the policy of its runner has answered it already: nobody is to be asked. */
  | {
      type: 'permission';
      requestId: string;
      toolName: string;
      detail: string;
      options: PermissionOption[];
      optionId?: string | null;
    }
  | { type: 'phase'; phase: string; detail?: string }
  | ({ type: 'usage' } & TurnUsage)
  | { type: 'final'; text: string }
  | { type: 'error'; code: string; message: string };

/** What clients get: a runner's events between `assistant.start` and `end`, and what the gateway adds. Each has `id: <seq>`. */
export type TurnEvent =
  | { type: 'assistant.start'; turnId: string; runner: string; model?: string; sessionId?: string }
  | Exclude<RunnerEvent, { type: 'session' }>
  /** A file that the turn changed in the draft. */
  | { type: 'file'; path: string; status: 'added' | 'changed' | 'removed' }
  /** `minted` are webhooks with their secrets, which publishing answers; `pending` those that it will mint. */
  | { type: 'webhooks'; minted: unknown[]; pending?: { automationId: string; ownerApp: string }[] }
  /** How a `permission` was answered; null when nobody did in time, or the turn ended. */
  | { type: 'permission.result'; requestId: string; optionId: string | null; ok: boolean }
  | { type: 'aborted' }
  | { type: 'end' };

/** What is to be found out about a runner: its version without starting a session, its models, its own tools. */
export type ProbeOrder = { runner: RunnerSpec; want: 'version' | 'models' | 'tools'; folder: string };
/** Models as the picker shows them. */
export type AgentModel = { id: string; name?: string; description?: string; isDefault?: boolean };
export type HostTool = { name: string; description?: string };
export type ProbeResult = {
  version?: string;
  models?: AgentModel[];
  tools?: HostTool[];
  /** Absent where the agent does not say. */
  signedIn?: boolean;
};

/** The one line of JSON that the process of agents reads from its standard input. When that ends, so does it. */
export type AgentsBootstrap = {
  supervisorSocket: string;
  ticket: string;
  /** Of this data directory: the environment of an agent's processes has `SVC_AGENT=<tag>.<number of the program>`, by which they are found. */
  tag: string;
  maxAgents: number;
  /** A process without a turn is ended after this long, milliseconds. */
  idleMs: number;
};
