/**
 * Finds where an app's code made a call whose error comes later, from another process or from Node, and puts that place into the
 * error's stack.
 */
import { LIMITS } from '../../../protocol/limits.ts';
import { ownFrames, safely } from '../handler-errors.ts';

// Taken before app code runs.
const { captureStackTrace } = Error;

/** Its `stack` becomes text when it is read. */
type Site = { stack?: string };

/** Where this is, or where `called` was called from. */
export function siteOf(called?: (...args: never[]) => unknown): Site {
  const site: Site = {};
  captureStackTrace(site, called);
  return site;
}

/** Gives the error the frames of the app that `sites` have, the first of them that has any; an error with such frames stays. */
export function placeError(error: unknown, ...sites: (Site | undefined)[]): void {
  // A transaction fails with what the app threw, which may be anything.
  safely(() => {
    if (!(error instanceof Error) || framesOf(error) !== '') return;
    const frames = sites.map((site) => (site === undefined ? '' : framesOf(site))).find((text) => text !== '');
    if (frames !== undefined) error.stack = `${error.name}: ${error.message}\n${frames}`;
  }, undefined);
}

/** The lines of a stack that are places in the app. */
function framesOf({ stack }: Site): string {
  const lines = ownFrames(String(stack)).split('\n');
  return lines.filter((line) => /^\s+at .*:\d+:\d+\)?$/.test(line)).join('\n');
}

/**
 * Where each statement was first run from, by tool and text. Looking at the stack takes longer than all else that this thread does
 * for a write, so it is done once for each statement.
 */
export class StatementSites {
  readonly #byTool = new Map<string, Map<string, Site>>();

  note(tool: string, sql: unknown, called: (...args: never[]) => unknown): void {
    // A long text is not kept for this.
    if (typeof sql !== 'string' || sql.length > LIMITS.textChars) return;
    let sites = this.#byTool.get(tool);
    if (sites === undefined) {
      sites = new Map();
      this.#byTool.set(tool, sites);
    }
    if (sites.has(sql)) return;
    if (sites.size >= LIMITS.statementCache) sites.clear();
    sites.set(sql, siteOf(called));
  }

  get(tool: string, sql: unknown): Site | undefined {
    return this.#byTool.get(tool)?.get(sql as string);
  }
}
