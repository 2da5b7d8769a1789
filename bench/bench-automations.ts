/** Automations for the bench app: their handlers do nothing, so that the way to them and back is what is measured. */
import type { HistoryKeep, Trigger } from '../protocol/automations/automation.ts';
import { automation } from '../testing/apps.ts';

/** The two files of an automation, by their paths in the app. */
export function automationFiles(id: string, triggers: Trigger[], keep: HistoryKeep = 'all'): Record<string, string> {
  return {
    [`automations/${id}/automation.json`]: automation({ triggers, history: { keep } }),
    [`automations/${id}/handler.js`]: "export default async () => ({ summary: 'done' });\n",
  };
}
