/** The gates that handlers pass when an app is published (specification, "Rules"; decisions, section 7). */
import { type InputIssue, SvcError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { type Inspection, inspect, type LocalImport, type ModuleKind } from './inspect.ts';
import { TimeBudget, TookTooLong } from './parse.ts';
import type { Finding, Reach } from './rules.ts';

/** The text of an app's file, or why a handler could not be loaded from it: what follows "The file". */
export type HandlerSource = { text: string } | { refused: string };

/** Reads a file of the app by its path in it. */
export type ReadHandler = (file: string) => HandlerSource;

/** What the manifest says of them that matters here. */
export type Declared = { queries: { name: string }[]; actions: { name: string }[] };

type Module = Inspection & { reach: Reach };
type HandlerKind = keyof Reach;

const MESSAGE_CHARS = 500;

/** What was found in files before, by path: one that still has the same text is not inspected again. */
export type KnownModules = Map<string, { text: string; kind: ModuleKind; inspection: Inspection }>;

/**
 * Checks every handler that the manifest or an automation's id declares, and the app's own modules that they import. `automationIds`
 * are those with an `automation.json`.
 * @throws {SvcError} `INVALID_HANDLER` with every finding, up to `LIMITS.inputIssues`, ordered by file, line and column.
 */
export function checkHandlers(
  read: ReadHandler,
  manifest: Declared,
  automationIds: string[],
  ms: number = LIMITS.handlerCheckMs,
): void {
  const check = handlerCheck(read, manifest, automationIds, { ms });
  while (!check.next().done);
}

/** The same in steps, a file each, for those who have other things to do meanwhile. */
export function* handlerCheck(
  read: ReadHandler,
  manifest: Declared,
  automationIds: string[],
  { ms = LIMITS.handlerCheckMs, known = new Map() }: { ms?: number; known?: KnownModules } = {},
): Generator<void, void> {
  const handlers = new Map<string, HandlerKind>();
  for (const { name } of manifest.queries) handlers.set(`queries/${name}.js`, 'query');
  for (const { name } of manifest.actions) handlers.set(`actions/${name}.js`, 'action');
  for (const id of automationIds) handlers.set(`automations/${id}/handler.js`, 'automation');
  const modules = new Modules(read, handlers, ms, known);
  for (const [file, kind] of handlers) yield* modules.follow(file, kind);
  const issues = modules.issues();
  if (issues.length > 0) throw invalidHandler(issues);
}

class Modules {
  readonly #read: ReadHandler;
  readonly #handlers: Map<string, HandlerKind>;
  /** By path; a text is the reason why there is no such module. */
  readonly #modules = new Map<string, Module | string>();

  readonly #known: KnownModules;
  readonly #ms: number;
  readonly #budget: TimeBudget;
  /** The file that took longest so far. */
  #slowest = { file: '', ms: -1 };

  constructor(read: ReadHandler, handlers: Map<string, HandlerKind>, ms: number, known: KnownModules) {
    this.#read = read;
    this.#handlers = handlers;
    this.#ms = ms;
    this.#known = known;
    this.#budget = new TimeBudget(ms);
  }

  issues(): InputIssue[] {
    return [...this.#modules.keys()].sort().flatMap((file) => this.#issuesOf(file));
  }

  /** Marks what a handler of this kind leads to, a file with each step. */
  *follow(handler: string, kind: HandlerKind): Generator<void, void> {
    for (const waiting = [handler]; ; ) {
      const file = waiting.pop();
      if (file === undefined) return;
      const module = this.#module(file);
      if (typeof module === 'string' || module.reach[kind]) continue;
      module.reach[kind] = true;
      for (const { file: imported } of module.imports) waiting.push(imported);
      yield;
    }
  }

  /** The trees of a module are not kept: there may be thousands. */
  #module(file: string): Module | string {
    const known = this.#modules.get(file);
    if (known !== undefined) return known;
    const source = this.#read(file);
    const kind: ModuleKind = this.#handlers.get(file) ?? 'module';
    const module =
      'refused' in source
        ? source.refused
        : { ...this.#inspect(file, source.text, kind), reach: { query: false, action: false, automation: false } };
    this.#modules.set(file, module);
    return module;
  }

  #inspect(file: string, text: string, kind: ModuleKind): Inspection {
    const before = this.#known.get(file);
    if (before?.text === text && before.kind === kind) return before.inspection;
    const started = performance.now();
    const note = (): void => {
      const ms = performance.now() - started;
      if (ms > this.#slowest.ms) this.#slowest = { file, ms };
    };
    try {
      const inspection = inspect(file, text, kind, this.#budget);
      this.#known.set(file, { text, kind, inspection });
      return inspection;
    } catch (error) {
      if (!(error instanceof TookTooLong)) throw error;
      note();
      const message = `Checking the handlers takes more than ${this.#ms / 1000} s, and of all files this one took longest; break it into smaller ones, and keep tables in .json files or in the data.`;
      throw invalidHandler([{ path: this.#slowest.file, keyword: 'syntax', message, line: 1, column: 1 }]);
    } finally {
      note();
    }
  }

  #issuesOf(file: string): InputIssue[] {
    const module = this.#modules.get(file) as Module | string;
    if (typeof module === 'string') {
      // Of other modules it is said where they are imported.
      if (!this.#handlers.has(file)) return [];
      return [{ path: file, keyword: 'import', message: `The file ${module}.`, line: 1, column: 1 }];
    }
    const findings = module.findings.filter(({ applies }) => applies === undefined || applies(module.reach));
    for (const missing of module.imports) findings.push(...this.#missing(missing));
    return findings
      .sort((a, b) => a.at - b.at || (a.rule < b.rule ? -1 : 1))
      .map(({ rule, at, message }) => ({
        path: file,
        keyword: rule,
        message: shorten(message),
        ...module.lines.position(at),
      }));
  }

  #missing({ file, at, needed }: LocalImport): Finding[] {
    const module = this.#modules.get(file);
    if (!needed || typeof module !== 'string') return [];
    return [{ rule: 'import', at, message: `It imports ${file}, which ${module}.` }];
  }
}

/** Names in the text of a module have no limit of their own. */
function shorten(message: string): string {
  return message.length <= MESSAGE_CHARS ? message : `${message.slice(0, MESSAGE_CHARS)}…`;
}

function invalidHandler(issues: InputIssue[]): SvcError {
  const [{ path, line, column, keyword, message }] = issues as [InputIssue];
  const shown = issues.slice(0, LIMITS.inputIssues);
  const others = issues.length - 1;
  const listed = issues.length > shown.length ? `; issues lists the first ${shown.length}` : '';
  const more =
    others === 0 ? '' : ` There ${others === 1 ? 'is 1 more finding' : `are ${others} more findings`}${listed}.`;
  return new SvcError(
    'INVALID_HANDLER',
    `${path}:${line}:${column}: ${message.replace(/\.$/, '')} (${keyword}).${more}`,
    {
      path,
      issues: shown,
    },
  );
}
