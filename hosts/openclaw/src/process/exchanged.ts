/** What the plugin and the process of its gateway say to each other. */
import type { ConversationTurn, HostFire, PreparedTurn } from 'svc-gateway';

/** To the gateway's process: starts it. `settings` are keys of svc's configuration. */
export type StartOrder = {
  dataDir: string;
  settings: Record<string, unknown>;
  /** Where the host listens, as it tells others. */
  url: string;
  /** Comes with each request that the host has let in. */
  proof: string;
  hostPid: number;
};

/** Its answer: the Unix socket that it serves. */
export type Started = { socket: string };

/** To the gateway's process: calls a tool. `token` is that of a turn. */
export type ToolOrder = { name: string; args: Record<string, unknown>; token?: string | undefined };
export type ToolAnswer = { text: string; isError: boolean };

/** To the host: runs a turn. Its events come as `event` calls; the answer is its end. */
export type TurnOrder = Omit<ConversationTurn, 'answer' | 'prepare' | 'signal'> & PreparedTurn & { turnId: string };
export type TurnEvent = { turnId: string; event: { type: string; [member: string]: unknown } };

/** To the host: runs an automation. What its `ctx` asks comes back as `ask` calls. */
export type FireOrder = Omit<HostFire, 'ctx' | 'log' | 'signal'> & { caller: unknown };
export type FireAsk = { runId: string; verb: string; args: unknown[] };

/** The header with the proof; taken out of what comes from outside. */
export const PROOF_HEADER = 'svc-admitted';
/** The header with the address of who sent a request, likewise. */
export const ADDRESS_HEADER = 'svc-client-address';
