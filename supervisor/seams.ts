/** What an embedding host may put in place of the gateway's own parts (specification, "Host-injected seams"). */

/** Runs one conversation turn; yields normalized events. */
export type ConversationRunner = (turn: {
  app: string;
  windowId: string;
  message: string;
  signal: AbortSignal;
}) => AsyncIterable<{ type: string; [member: string]: unknown }>;

/** Whether the host's runner can be used; `kind` is the host's own word. */
export type RunnerStatus = () => Promise<{ kind: string; ok: boolean; detail?: string }>;

/** Makes what fires an automation. */
export type FireAutomationFactory = (host: {
  baseUrl: string | null;
}) => (fire: { automationRef: string; input: unknown; signal: AbortSignal }) => Promise<{ runId: string }>;

/**
 * The seams of the specification's table. This version has neither chat nor automations nor the git store: a seam that is
 * given is refused when the gateway is built, rather than never called.
 */
export type Seams = {
  conversationRunner?: ConversationRunner;
  runnerStatus?: RunnerStatus;
  fireAutomationFactory?: FireAutomationFactory;
  appsStoreRoot?: string;
};

/** Names of the seams in `options` that this version has no use for. */
export function unusedSeams(options: Seams): string[] {
  const names = ['conversationRunner', 'runnerStatus', 'fireAutomationFactory', 'appsStoreRoot'] as const;
  return names.filter((name) => options[name] !== undefined);
}
