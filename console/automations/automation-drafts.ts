/** Names drafts where one of them is chosen. */
import type { SessionRow } from '../app/code/code-session.ts';
import { ago } from '../words.ts';

export const draftName = ({ sessionId, touchedAt }: SessionRow): string => `Draft ${sessionId}, ${ago(touchedAt)}`;
