/** Warns of files that look like automations and are none. */
import { flatAutomation, flatAutomations } from '../../protocol/rules/automation-issues.ts';
import type { Terminal } from './terminal.ts';

/** `paths` are the files of an app. */
export function warnOfFlatAutomations(terminal: Terminal, paths: string[]): void {
  for (const name of flatAutomations(paths))
    terminal.note(`${terminal.noteStyle('yellow', '!')} ${flatAutomation(name).message}`);
}
