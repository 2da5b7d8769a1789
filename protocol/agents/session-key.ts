/** Names the conversations of agents: makes and parses session keys (specification, "Session keys"). Pure. */

/** A window of an app, or a conversation of it; `draft` is the session of the draft, absent for the live app. */
export type ConversationName = { kind: 'window' | 'conversation'; app: string; draft?: string; id: string };

const APP = '([a-z0-9][a-z0-9_-]{0,62})';
const ID = '([A-Za-z0-9][A-Za-z0-9_-]{0,63})';
const LIVE = new RegExp(`^svc-chat:${APP}:([wc])${ID}$`);
const DRAFT = new RegExp(`^svc-draft:${ID}:${APP}:([wc])${ID}$`);

/** `svc-chat:<app>:w<window>`, of a draft `svc-draft:<workspace>:<app>:w<window>`; a conversation has `c` in place of `w`. */
export function sessionKey({ kind, app, draft, id }: ConversationName): string {
  const scope = draft === undefined ? 'svc-chat' : `svc-draft:${draft}`;
  return `${scope}:${app}:${kind === 'window' ? 'w' : 'c'}${id}`;
}

/** Null unless the whole text is such a key. */
export function parseSessionKey(key: string): ConversationName | null {
  const live = LIVE.exec(key);
  if (live) return named(live[1], live[2], live[3]);
  const draft = DRAFT.exec(key);
  return draft ? { ...named(draft[2], draft[3], draft[4]), draft: String(draft[1]) } : null;
}

function named(app = '', letter = '', id = ''): ConversationName {
  return { kind: letter === 'w' ? 'window' : 'conversation', app, id };
}
