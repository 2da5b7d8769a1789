/** Types of the parts that an embedding host may replace (specification, "Extension points"). */
import type { ChatMode, EarlierMessage, ThinkingLevel, TurnAttachment } from '../protocol/agents/agents.ts';
import type { RunRecord, RunState } from '../protocol/automations/runs.ts';
import type { WebhookRequest } from '../protocol/automations/webhook-messages.ts';
import type { HandlerCaller, HandlerUser } from '../protocol/wire/handler-caller.ts';
import type { DraftFinding } from './authoring/draft-check.ts';

/** One turn of a conversation, as a runner gets it. */
export type ConversationTurn = {
  app: string;
  windowId: string;
  /** The session key of the conversation, see `sessionKey`; absent for `ctx.agent`, whose window is its own. */
  conversation?: string;
  message: string;
  /** By default `data`. */
  mode?: ChatMode;
  /** A name in `runners` of the configuration; by default the one that `runner` names. */
  runner?: string;
  model?: string;
  thinking?: ThinkingLevel;
  attachments?: TurnAttachment[];
  /** The workspace whose draft of the app is worked on, in mode `full`, or talked with. */
  draft?: string;
  /** What is wrong with that draft as the turn begins, for the agent to repair; absent when nothing is. */
  findings?: DraftFinding[];
  /** The id in the window's last `session` event; null when there was none. */
  resume?: string | null;
  /** Earlier messages, oldest first: for runners that keep none. Without `resume`, answers have the tools that were called for them. */
  history?: EarlierMessage[];
  /**
   * Who asks does not manage the app, such as a page of it: the agent is to have the tools of the app and nothing else, and may use
   * `svc_sql_*` as far as `chat` of the app's manifest says.
   */
  limited?: boolean;
  /** The person who asks, as handlers see them; absent where none does. */
  user?: HandlerUser;
  /** The run that asks; absent in a chat. */
  run?: {
    runId: string;
    automationRef: string;
    /** `requires.tools` of its file, the only tools it may use; absent: the tools of the app. */
    tools?: string[];
  };
  /**
   * Resolves with the option that was chosen for a `permission` event, with null for "no". Absent when there is no one to ask.
   */
  answer?(requestId: string): Promise<string | null>;
  /**
   * What the agent of a host gets for this turn; each call gives another token. Absent for the gateway's own runner. Rejects with
   * the error that keeps the app from being used.
   */
  prepare?(): Promise<PreparedTurn>;
  /** When it aborts, the turn is to end. */
  signal: AbortSignal;
};

export type PreparedTurn = {
  /** The session key of the conversation. */
  conversation: string;
  /** For `callTool` of the gateway, and as a Bearer token at its MCP addresses: good while the turn runs, for its app or draft alone. */
  token: string;
  /** What to tell the agent before the message: the app, its tools and tables, how to work, and what is wrong with the draft. */
  instructions: string;
  /** Where it works: the files of the draft in mode `full`, else an empty folder of its window. */
  folder: string;
};

/**
 * Runs one conversation turn; yields normalized events (`RunnerEvent`), of which unknown and invalid members are dropped. An
 * automation's `ctx.agent` is a turn of a separate window: `assistant.delta` is shown to the run's followers, the text of
 * `final` (or all deltas) is the answer, `usage` is added up, `error` and `aborted` fail the call.
 */
export type ConversationRunner = (turn: ConversationTurn) => AsyncIterable<{ type: string; [member: string]: unknown }>;

/** Whether the host's runner can be used; `kind` is the host's own word. */
export type RunnerStatus = () => Promise<{ kind: string; ok: boolean; detail?: string }>;

/** Arguments and answers of `ctx.runs`. */
export type RunQuery = { ref?: string; state?: RunState; limit?: number };

/**
 * A handler's `ctx` (specification, "Context of a fire"). What its members reject with carries `code`, `message` and perhaps
 * `path`.
 */
export type FireContext = {
  /** Calls `svc_describe`, `svc_read`, `svc_write` or `<MCP server>.<tool>`, as far as the automation's file allows. */
  tool(name: string, args?: unknown): Promise<unknown>;
  /** An agent's answer: its text, or the value of that text with `json`. */
  agent(request: { prompt: string; json?: boolean }): Promise<unknown>;
  state: {
    get(key: string): Promise<unknown>;
    set(key: string, value: unknown): Promise<void>;
    delete(key: string): Promise<void>;
  };
  runs: {
    last(filter?: RunQuery): Promise<RunRecord | null>;
    list(filter?: RunQuery): Promise<RunRecord[]>;
  };
  /**
   * Sends a notice to people, by every channel of the gateway; `url` is absolute or relative to the app's page. Resolves when it is
   * accepted, with the number of channels. Rejects with `BAD_REQUEST` and `RATE_LIMITED`.
   */
  notify(notice: { title: string; text: string; url?: string }): Promise<{ channels: number }>;
  fetch: typeof fetch;
  /** A secret of the automation's app. Rejects with `UNKNOWN_SECRET` or `SECRET_UNREADABLE`. */
  secrets: { get(name: string): Promise<string> };
  input: unknown;
  /** The automation itself, however it was fired: its name is its ref. */
  caller: HandlerCaller;
  /** No person calls an automation. */
  user: null;
  /** Aborts when the run was cancelled, when its time is up, and when the gateway stops. */
  signal: AbortSignal;
  /** The time of the fire, milliseconds since the epoch. */
  now: number;
};

/** Writes a line to the app's log and to those who follow the run. */
export type FireLog = Record<
  'debug' | 'info' | 'warn' | 'error',
  (message: string, fields?: Record<string, unknown>) => void
>;

/** One fire for the host to run. */
export type HostFire = {
  runId: string;
  automationRef: string;
  /** As handlers get it. */
  automation: { ref: string; id: string; name: string; version: string };
  /** The file of its handler, `.js` or `.ts`, in the code of the version that serves. */
  handler: string;
  input: unknown;
  /** Only for a webhook. */
  request?: WebhookRequest;
  now: number;
  ctx: FireContext;
  log: FireLog;
  signal: AbortSignal;
};

/** A handler's result. `response` is for the sender of a webhook: 200 to 499, a text or a JSON value of at most 64 KiB. */
export type FireResult = {
  summary?: string;
  output?: unknown;
  response?: { status: number; headers?: Record<string, string>; body?: unknown };
};

/** Runs an automation in the host's own process. A rejection fails the run. */
export type FireAutomation = (fire: HostFire) => Promise<FireResult | undefined> | Promise<void>;

/**
 * Makes what fires automations in place of the gateway's threads; called once, at the first fire. `baseUrl` is the address
 * of the gateway, null when the host owns the server.
 */
export type FireAutomationFactory = (host: { baseUrl: string | null }) => FireAutomation;

/** The kind of host of a gateway (specification, "Data directory"), as in `profile.json`. */
export const GATEWAY_KINDS = ['daemon', 'desktop', 'plugin'] as const;
export type GatewayKind = (typeof GATEWAY_KINDS)[number];

/** What a host may replace, but for `appsStoreRoot`, which is a key of the configuration. */
export type ExtensionPoints = {
  conversationRunner?: ConversationRunner;
  runnerStatus?: RunnerStatus;
  fireAutomationFactory?: FireAutomationFactory;
};

/** The same as it is handed on, where what is not given may be undefined. */
export type GivenExtensions = { [Name in keyof ExtensionPoints]: ExtensionPoints[Name] | undefined };
