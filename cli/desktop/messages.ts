/** What is asked of the process that holds the windows, and its answers: one JSON text each, on a connection of their own. */
import type { Page, Shown } from './windows.ts';

export type Request = { show: Page } | { close: true };
export type Answer = { shown: Shown } | { closed: true } | { error: string };

/** The socket in the folder that the note at `Layout.window` names. */
export const SOCKET = 'window';
