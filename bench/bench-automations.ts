/** Automations for the bench app: their handlers do nothing, so that the way to them and back is what is measured. */
import type { AutomationManifest, HistoryKeep, Trigger } from '../protocol/automations/automation.ts';

const HANDLER = "export default async () => ({ summary: 'done' });\n";

/** The two files of an automation, by their paths in the app. */
export function automationFiles(id: string, triggers: Trigger[], keep: HistoryKeep = 'all'): Record<string, string> {
  const manifest: AutomationManifest = {
    name: `Bench ${id}`,
    version: '1.0.0',
    prompt: 'Does nothing.',
    enabled: true,
    triggers,
    requires: {},
    history: { keep },
    generated: { by: 'bench', at: '2026-01-01T00:00:00.000Z' },
  };
  return {
    [`automations/${id}/automation.json`]: JSON.stringify(manifest),
    [`automations/${id}/handler.js`]: HANDLER,
  };
}
