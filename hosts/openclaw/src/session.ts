/**
 * Knows which app a session of the host belongs to, and refuses calls of its agent for others (specification, "Session keys").
 */
import { type ConversationName, parseSessionKey } from '../../../protocol/agents/session-key.ts';

/** The host puts the agent's id before a key, and may write it in lower case. */
const OF_AGENT = /^agent:[^:]+:(?=svc-)/;

/** The key of a conversation as the host gets it. */
export function hostKey(agentId: string, conversation: string): string {
  return `agent:${agentId}:${conversation}`;
}

/** A conversation of svc; null for every other session of the host. */
export function conversationOf(sessionKey: string | undefined): ConversationName | null {
  return sessionKey === undefined ? null : parseSessionKey(sessionKey.replace(OF_AGENT, ''));
}

/** Whether a session is of svc, whether or not its key can be read. */
export function isOurs(sessionKey: string | undefined): boolean {
  return /^(?:agent:[^:]+:)?svc-(?:chat|draft):/.test(sessionKey ?? '');
}

/** Why a call may not run, before it runs; null if it may. A session that is not of svc is its operator's, and may use every app. */
export function refusal(sessionKey: string | undefined, args: Record<string, unknown>): string | null {
  if (!isOurs(sessionKey)) return null;
  const own = conversationOf(sessionKey)?.app;
  if (own === undefined) return 'The session key of this conversation cannot be read, so its agent may use no app.';
  const { app } = args;
  if (app === undefined || app === own) return null;
  return `An agent may use the tools of its own app only, which is "${own}".`;
}
