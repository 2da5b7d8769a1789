/** Where drafts come from: the sessions, as far as the drafts know them. */
import { SvcError } from '../../protocol/errors.ts';

export type DraftSource = {
  has(sessionId: string): boolean | Promise<boolean>;
  /** The app's folder in the session's worktree, taken into the session on first use. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`. */
  folder(sessionId: string, app: string): Promise<string>;
  /** The apps that were taken into the session. Rejects with `UNKNOWN_SESSION`. */
  apps(sessionId: string): Promise<string[]>;
  /** Told after the gateway itself changed files of an app. */
  onEdited(told: (sessionId: string, app: string) => void): void;
  /** Told when a session has gone; it waits for what is returned. */
  onClosed(told: (sessionId: string) => void | Promise<void>): void;
};

export function unknownSession(id: string): SvcError {
  return new SvcError('UNKNOWN_SESSION', `There is no open session "${id.slice(0, 80)}".`);
}
