/** The files of automations in an app's folder: made, changed and removed (decisions, section 7). */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AUTOMATION_ID } from '../../protocol/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { parseAutomation } from '../../protocol/rules/automation-check.ts';
import { automationFault, invalidAutomation } from '../../protocol/rules/automation-issues.ts';
import { exists, isMissing, writeFileAtomic } from '../../storage/atomic-file.ts';
import { twinFolder } from '../../storage/sessions.ts';
import type { EditTools } from './sessions.ts';

/** `manifest` are members of `automation.json`; null removes one. `handler` is the text of `handler.js`. */
export type AutomationDraft = { manifest: Record<string, unknown>; handler?: string };

const HANDLER = `// What this does each time it fires. \`ctx.tool\` calls the tools of apps, \`ctx.now\` is the time of the fire.
export default async function run({ ctx, log, input }) {
  log.info('fired', { at: ctx.now, input });
  return { summary: 'Nothing to do yet.' };
}
`;

/** Switched off unless the caller says otherwise (specification, "Automation manifest": \`enabled\`). */
export async function createAutomation(
  folder: string,
  { id, manifest, handler = HANDLER }: AutomationDraft & { id: string },
  now: number,
  tools: EditTools,
): Promise<void> {
  checkId(id);
  const dir = folderOf(folder, id);
  if (await exists(dir)) throw new SvcError('CONFLICT', `An automation "${id}" already exists.`, { path: 'id' });
  const generated = { by: 'hand', at: new Date(now).toISOString() };
  const text = checkedText(id, merge({ enabled: false, generated }, manifest), now);
  await tools.replaceAutomation(id, async (staged) => {
    await writeFileAtomic(join(staged, 'handler.js'), handler);
    await writeFileAtomic(join(staged, 'automation.json'), text);
  });
}

/** Members that are not named stay as they are; so does the handler. */
export async function updateAutomation(
  folder: string,
  { id, manifest, handler }: AutomationDraft & { id: string },
  now: number,
  tools: EditTools,
): Promise<void> {
  checkId(id);
  const path = join(folderOf(folder, id), 'automation.json');
  const before = await readFile(path, 'utf8').catch((error: unknown) => {
    throw isMissing(error) ? unknown(id) : error;
  });
  const parsed = parseAutomation(before, { firesAfter: null });
  if ('issues' in parsed) throw invalid(id, parsed.issues);
  const text = checkedText(id, merge(JSON.parse(before) as Record<string, unknown>, manifest), now);
  if (handler === undefined) return writeFileAtomic(path, text);
  await tools.replaceAutomation(id, async (staged) => {
    await twinFolder(folderOf(folder, id), staged);
    await writeFileAtomic(join(staged, 'handler.js'), handler);
    await writeFileAtomic(join(staged, 'automation.json'), text);
  });
}

export async function deleteAutomation(folder: string, id: string, tools: EditTools): Promise<void> {
  checkId(id);
  if (!(await exists(folderOf(folder, id)))) throw unknown(id);
  await tools.removeAutomation(id);
}

function merge(file: Record<string, unknown>, change: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...withTriggers(file), ...withTriggers(change) };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null));
}

/** The legacy `trigger` as `triggers`: it is rewritten wherever the file is. Who names both is told so by the check. */
function withTriggers(members: Record<string, unknown>): Record<string, unknown> {
  const { trigger, ...others } = members;
  if (trigger === undefined || trigger === null || members.triggers !== undefined) return members;
  return { ...others, triggers: [trigger] };
}

function checkedText(id: string, file: Record<string, unknown>, now: number): string {
  const text = `${JSON.stringify(file, null, 2)}\n`;
  const parsed = parseAutomation(text, { firesAfter: now });
  if ('issues' in parsed) throw invalid(id, parsed.issues);
  return text;
}

function invalid(
  id: string,
  issues: Extract<ReturnType<typeof parseAutomation>, { issues: unknown }>['issues'],
): SvcError {
  const [first, ...others] = issues.map((issue) => automationFault(id, issue));
  if (first === undefined) throw new Error('An invalid automation has at least one fault.');
  return invalidAutomation([first, ...others]);
}

function folderOf(folder: string, id: string): string {
  return join(folder, 'automations', id);
}

function checkId(id: string): void {
  if (AUTOMATION_ID.test(id)) return;
  throw new SvcError(
    'INVALID_ID',
    'An automation id has 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first.',
    {
      path: 'id',
    },
  );
}

function unknown(id: string): SvcError {
  return new SvcError('UNKNOWN_AUTOMATION', `The app has no automation "${id.slice(0, 80)}" in this session.`);
}
