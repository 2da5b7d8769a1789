/** What an actor says of itself: to the gateway's log, and to its app's own, whose author wants to know as well. */
import { appOfKey } from '../../../protocol/ids.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { Call } from './call.ts';

/** Of an `Actor`: who speaks, and of which version. */
type Speaker = { readonly app: string; readonly automation: string | null; readonly key: string } & {
  summary: VersionSummary;
};

/** The gateway's log, and the apps'. */
type Logs = {
  log(app: string, level: 'info' | 'warn' | 'error', message: string): void;
  appLog(app: string, line: string): void;
};

export class ActorLog {
  readonly #speaker: Speaker;
  readonly #env: Logs;

  constructor(speaker: Speaker, env: Logs) {
    this.#speaker = speaker;
    this.#env = env;
  }

  /** To both logs; what is said of a single call concerns the app's author only. */
  say(level: 'warn' | 'error', message: string, call: Call | null = null): void {
    const { app, automation, key, summary } = this.#speaker;
    if (!call) this.#env.log(key, level, message);
    const { tool = null, traceId = null } = call?.request ?? {};
    const origin = { app: appOfKey(app), versionId: summary.versionId, tool: tool ?? automation, traceId };
    this.#env.appLog(app, JSON.stringify({ ts: new Date().toISOString(), level, ...origin, msg: message }));
  }
}
