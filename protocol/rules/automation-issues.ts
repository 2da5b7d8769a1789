/** The error of an upload whose automations are not valid. */
import type { AutomationIssue } from '../automation.ts';
import { type InputIssue, SvcError } from '../errors.ts';
import { LIMITS } from '../limits.ts';

/** Something wrong in a version's file of this path; `keyword` is what stands as such in the error's `issues`. */
export type AutomationFault = { file: string; field: string; keyword: string; message: string };

export function automationFile(id: string): string {
  return `automations/${id}/automation.json`;
}

const FLAT = /^automations\/([^/]+)\.json$/;

/** Names of the files `automations/<name>.json`: other systems write them so, and here nothing reads them. */
export function flatAutomations(paths: string[]): string[] {
  return paths.flatMap((path) => FLAT.exec(path)?.[1] ?? []).sort();
}

/** What is wrong with such a file, and what to do. */
export function flatAutomation(name: string): { path: string; message: string } {
  const path = `automations/${name}.json`;
  const message = `${path} is not read and never fires: move it to ${automationFile(name)}, with a handler.js beside it.`;
  return { path, message };
}

export function automationFault(id: string, { code, path, message }: AutomationIssue): AutomationFault {
  return { file: automationFile(id), field: path, keyword: code, message };
}

/**
 * `INVALID_AUTOMATION`: `path` is the file and, behind `#`, the field of the first fault, which the message says with its code;
 * `issues` has all of them, up to `LIMITS.inputIssues`.
 */
export function invalidAutomation(faults: [AutomationFault, ...AutomationFault[]]): SvcError {
  const [{ file, field, keyword, message }] = faults;
  const where = field === '' ? file : `${file}: ${field}`;
  const issues = faults.slice(0, LIMITS.inputIssues).map(toIssue);
  return new SvcError('INVALID_AUTOMATION', `${where} ${message.replace(/\.$/, '')} (${keyword}).`, {
    path: pathOf(file, field),
    issues,
  });
}

function toIssue({ file, field, keyword, message }: AutomationFault): InputIssue {
  return { path: pathOf(file, field), message, keyword };
}

function pathOf(file: string, field: string): string {
  return field === '' ? file : `${file}#${field}`;
}
