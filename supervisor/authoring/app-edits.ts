/** Edits single things in an app's folder: its `app.json`, and its automations (specification, "Changes without an editor"). */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AUTOMATION_ID, automationFault, invalidAutomation } from '../../protocol/automations/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { APP_ICON } from '../../protocol/http/icons.ts';
import { parseAutomation } from '../../protocol/rules/automation-check.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import { linkFolder } from '../../storage/authoring/workspace-records.ts';
import { exists, isMissing, writeFileAtomic } from '../../storage/files/atomic-file.ts';
import type { ReplaceAutomation } from './workspaces.ts';

/** `manifest` are members of `automation.json`; null removes one. `handler` is the text of `handler.js`, or of a `handler.ts` that is there. */
export type AutomationDraft = { manifest: Record<string, unknown>; handler?: string };

/**
 * An empty description removes it. `icon` is the text of `icon.svg`, null removes that; `public` is all that visitors may use, as
 * `publicParts` names it.
 */
export type AppChange = { name?: string; description?: string; icon?: string | null; public?: readonly string[] };

/** Rejects with `INVALID_MANIFEST` when the file is not one that can be changed, and with `BAD_REQUEST` for an unknown tool. */
export async function changeApp(folder: string, { icon, public: open, ...texts }: AppChange): Promise<void> {
  if (open !== undefined || Object.keys(texts).length > 0) await editManifest(folder, texts, open);
  if (icon === null) await rm(join(folder, APP_ICON), { force: true });
  else if (icon !== undefined) await writeFileAtomic(join(folder, APP_ICON), icon);
}

async function editManifest(folder: string, texts: AppChange, open?: readonly string[]) {
  const path = join(folder, 'app.json');
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new SvcError('INVALID_MANIFEST', 'The app has no app.json in this workspace.', { path: 'app.json' });
  });
  const { description, ...rest } = { ...parseManifest(text), ...texts };
  const manifest: Record<string, unknown> = description === '' ? rest : { ...rest, description };
  const changed = open === undefined ? manifest : openedTo(open, manifest);
  await writeFileAtomic(path, `${JSON.stringify(changed, null, 2)}\n`);
}

/** The manifest with these parts open to visitors, and no others. */
function openedTo(open: readonly string[], { public: _, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const unknown = new Set(open);
  const marked = (part: string) => (unknown.delete(part) ? { public: true } : {});
  const changed: Record<string, unknown> = { ...rest, ...marked('page') };
  for (const [kind, list] of [
    ['query', 'queries'],
    ['action', 'actions'],
  ] as const) {
    const tools = rest[list];
    if (!Array.isArray(tools)) continue;
    changed[list] = tools.map((tool: unknown) => {
      if (!isRecord(tool)) return tool;
      const { public: __, ...others } = tool;
      return { ...others, ...marked(`${kind} ${String(tool.name)}`) };
    });
  }
  const [first] = unknown;
  if (first === undefined) return changed;
  throw new SvcError(
    'BAD_REQUEST',
    `The app has no "${first.slice(0, 80)}" to open: name "page", "query <name>" or "action <name>".`,
    {
      path: 'public',
    },
  );
}

/** The app's name; null when the file does not say it. */
export async function readName(folder: string): Promise<string | null> {
  try {
    const { name } = parseManifest(await readFile(join(folder, 'app.json'), 'utf8'));
    return typeof name === 'string' ? name : null;
  } catch {
    return null;
  }
}

const HANDLER = `// What this does each time it fires. \`ctx.tool\` calls the tools of apps, \`ctx.now\` is the time of the fire.
export default async function run({ ctx, log, input }) {
  log.info('fired', { at: ctx.now, input });
  return { summary: 'Nothing to do yet.' };
}
`;

/** Switched off unless the caller says otherwise (specification, "Automation files"). */
export async function createAutomation(
  folder: string,
  { id, manifest, handler = HANDLER }: AutomationDraft & { id: string },
  replace: ReplaceAutomation,
): Promise<void> {
  checkId(id);
  const dir = folderOf(folder, id);
  if (await exists(dir)) throw new SvcError('CONFLICT', `An automation "${id}" already exists.`, { path: 'id' });
  const generated = { by: 'hand', at: new Date().toISOString() };
  const text = checkedText(id, merge({ enabled: false, generated }, manifest));
  await replace(id, async (staged) => {
    await writeFileAtomic(join(staged, 'handler.js'), handler);
    await writeFileAtomic(join(staged, 'automation.json'), text);
  });
}

/** Members that are not named stay as they are; so does the handler. */
export async function updateAutomation(
  folder: string,
  { id, manifest, handler }: AutomationDraft & { id: string },
  replace: ReplaceAutomation,
): Promise<void> {
  checkId(id);
  const path = join(folderOf(folder, id), 'automation.json');
  const before = await readFile(path, 'utf8').catch((error: unknown) => {
    throw isMissing(error) ? unknown(id) : error;
  });
  check(id, before, null);
  const text = checkedText(id, merge(JSON.parse(before) as Record<string, unknown>, manifest));
  if (handler === undefined) return writeFileAtomic(path, text);
  await replace(id, async (staged) => {
    await linkFolder(folderOf(folder, id), staged);
    const file = (await exists(join(staged, 'handler.ts'))) ? 'handler.ts' : 'handler.js';
    await writeFileAtomic(join(staged, file), handler);
    await writeFileAtomic(join(staged, 'automation.json'), text);
  });
}

export async function deleteAutomation(folder: string, id: string, replace: ReplaceAutomation): Promise<void> {
  checkId(id);
  if (!(await exists(folderOf(folder, id)))) throw unknown(id);
  await replace(id, null);
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

function checkedText(id: string, file: Record<string, unknown>): string {
  const text = `${JSON.stringify(file, null, 2)}\n`;
  check(id, text, Date.now());
  return text;
}

/** Throws `INVALID_AUTOMATION`. */
function check(id: string, text: string, firesAfter: number | null): void {
  const parsed = parseAutomation(text, { firesAfter });
  if (!('issues' in parsed)) return;
  throw invalidAutomation(parsed.issues.map((issue) => automationFault(id, issue)));
}

function folderOf(folder: string, id: string): string {
  return join(folder, 'automations', id);
}

function checkId(id: string): void {
  if (AUTOMATION_ID.test(id)) return;
  throw new SvcError(
    'INVALID_ID',
    'An automation id has 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first.',
    { path: 'id' },
  );
}

function unknown(id: string): SvcError {
  return new SvcError('UNKNOWN_AUTOMATION', `The app has no automation "${id.slice(0, 80)}" in this workspace.`);
}

function parseManifest(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {
    // Answered below.
  }
  throw new SvcError('INVALID_MANIFEST', 'The app.json of this workspace is not a JSON object; fix it first.', {
    path: 'app.json',
  });
}
