/** Names drafts where one of them is chosen. */
import type { WorkspaceRow } from '../app/code/code-workspace.ts';
import { ago } from '../words.ts';

export const draftName = ({ sessionId, touchedAt }: WorkspaceRow): string => `Draft ${sessionId}, ${ago(touchedAt)}`;
