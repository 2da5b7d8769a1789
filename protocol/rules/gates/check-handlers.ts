/** Checks the handlers of an app before it is published (specification, "Handler rules"). */
import type { AnyNode, Program } from 'acorn';
import type { InputIssue, SvcError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { BUNDLERS, isOfPackage } from '../handler-imports.ts';
import { invalidSources } from '../source-findings.ts';
import { checkDeterminism } from './determinism.ts';
import { exportsOf, importsOf, type LocalImport, nameOf } from './module-names.ts';
import { checkReadOnly } from './read-only-queries.ts';
import { type Finding, LOADING_RULES, type Reach, Waivers } from './rules.ts';
import { Lines, Names, parseModule, type SyntaxFault, stepsWithin, TookTooLong, tooDeep } from './syntax.ts';

/**
 * The text of an app's file, of TypeScript with its types erased or why they cannot be; or why a handler could not be loaded from
 * it: what follows "The file".
 */
export type HandlerSource = { text: string; fault?: SyntaxFault } | { refused: string };

/** Reads a file of the app by its path in it, at most twice. */
export type ReadHandler = (file: string) => HandlerSource;

/** The members of the manifest that matter here. */
type Declared = { queries: { name: string }[]; actions: { name: string }[] };

/** The kind of a file, by its name: only handlers need a default export, and authors cannot change packages. */
type ModuleKind = keyof Reach | 'module' | 'package';
type HandlerKind = keyof Reach;
type Module = Inspection & { reach: Reach };

const MESSAGE_CHARS = 500;
const BUNDLING = `${BUNDLERS} bundle what is imported, from node_modules of the app's folder`;

/** Earlier findings by path: a file with the same text is not inspected again. */
export type KnownModules = Map<string, { text: string; kind: ModuleKind; inspection: Inspection }>;

/**
 * Checks every handler that the manifest or an automation's id declares, and the app's own modules that they import. `automationIds`
 * are those with an `automation.json`. Answers every finding, ordered by file, line and column.
 * @throws {SvcError} `INVALID_HANDLER` when it takes more than `ms`.
 */
export function checkHandlers(
  read: ReadHandler,
  manifest: Declared,
  automationIds: string[],
  ms: number = LIMITS.handlerCheckMs,
): InputIssue[] {
  const check = handlerCheck(read, manifest, automationIds, { ms });
  for (;;) {
    const { done, value } = check.next();
    if (done) return value;
  }
}

/** The same in steps of one file, for callers that have other work between them. */
export function* handlerCheck(
  read: ReadHandler,
  manifest: Declared,
  automationIds: string[],
  { ms = LIMITS.handlerCheckMs, known = new Map() }: { ms?: number; known?: KnownModules } = {},
): Generator<void, InputIssue[]> {
  /** Paths without the ending. */
  const handlers = new Map<string, HandlerKind>();
  for (const { name } of manifest.queries) handlers.set(`queries/${name}`, 'query');
  for (const { name } of manifest.actions) handlers.set(`actions/${name}`, 'action');
  for (const id of automationIds) handlers.set(`automations/${id}/handler`, 'automation');
  const modules = new Modules(read, handlers, ms, known);
  for (const [name, kind] of handlers) yield* modules.follow(name, kind);
  return modules.issues();
}

/** Whether the file of the finding cannot be loaded: then no version may have it. Other findings refuse publications only. */
export function keepsFromLoading({ keyword }: InputIssue): boolean {
  return LOADING_RULES.some((rule) => rule === keyword);
}

class Modules {
  readonly #read: ReadHandler;
  readonly #handlers = new Map<string, HandlerKind>();
  /** By path; a text says why the module cannot be read. */
  readonly #modules = new Map<string, Module | string>();

  readonly #known: KnownModules;
  readonly #ms: number;
  readonly #step: () => void;
  /** The file that took longest so far. */
  #slowest = { file: '', ms: -1 };

  constructor(read: ReadHandler, handlers: Map<string, HandlerKind>, ms: number, known: KnownModules) {
    this.#read = read;
    for (const [name, kind] of handlers) this.#handlers.set(`${name}.js`, kind).set(`${name}.ts`, kind);
    this.#ms = ms;
    this.#known = known;
    this.#step = stepsWithin(ms);
  }

  issues(): InputIssue[] {
    return [...this.#modules.keys()].sort().flatMap((file) => this.#issuesOf(file));
  }

  /** Marks what a handler of this kind leads to, a file with each step. Its `name` is its path without the ending. */
  *follow(name: string, kind: HandlerKind): Generator<void, void> {
    for (const waiting = [this.#handlerFile(name)]; ; ) {
      const file = waiting.pop();
      if (file === undefined) return;
      const module = this.#module(file);
      if (typeof module === 'string' || module.reach[kind]) continue;
      module.reach[kind] = true;
      for (const { file: imported } of module.imports) waiting.push(imported);
      yield;
    }
  }

  /** As the loader chooses it. A handler that is there twice is a fault of the second file. */
  #handlerFile(name: string): string {
    const plain = `${name}.js`;
    const typed = `${name}.ts`;
    const isPlain = typeof this.#module(plain) !== 'string';
    const isTyped = !('refused' in this.#read(typed));
    if (isPlain && isTyped)
      this.#modules.set(typed, `is beside ${plain}, which has the same name; keep one of the two`);
    else this.#handlers.delete(isTyped ? plain : typed);
    return isTyped && !isPlain ? typed : plain;
  }

  /** The trees of a module are not kept: there may be thousands. */
  #module(file: string): Module | string {
    const known = this.#modules.get(file);
    if (known !== undefined) return known;
    const source = this.#read(file);
    const kind: ModuleKind = this.#handlers.get(file) ?? (isOfPackage(file) ? 'package' : 'module');
    const module =
      'refused' in source
        ? source.refused
        : { ...this.#inspect(file, source, kind), reach: { query: false, action: false, automation: false } };
    this.#modules.set(file, module);
    return module;
  }

  #inspect(file: string, { text, fault }: Extract<HandlerSource, { text: string }>, kind: ModuleKind): Inspection {
    if (fault !== undefined) return { findings: [syntax(fault)], imports: [], exports: null, lines: new Lines(text) };
    const before = this.#known.get(file);
    if (before?.text === text && before.kind === kind) return before.inspection;
    const started = performance.now();
    const note = (): void => {
      const ms = performance.now() - started;
      if (ms > this.#slowest.ms) this.#slowest = { file, ms };
    };
    try {
      const inspection = inspect(file, text, kind, this.#step);
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
      // Other modules are reported where they are imported.
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

  #missing({ specifier, file, at, needed, names }: LocalImport): Finding[] {
    const module = this.#modules.get(file);
    if (!needed || module === undefined) return [];
    if (typeof module !== 'string') {
      const { exports } = module;
      const source = isOfPackage(file) ? `"${specifier}", whose bundle` : `${file}, which`;
      const advice = isOfPackage(file)
        ? `; ${BUNDLING}.`
        : file.endsWith('.ts')
          ? '; for a type, write `import type`.'
          : '.';
      return names
        .filter(({ name }) => exports !== null && !exports.has(name))
        .map(({ name, at }) => {
          const message = `It imports "${name}" from ${source} exports nothing of this name${advice}`;
          return { rule: 'import', at, message };
        });
    }
    if (isOfPackage(file)) {
      const message = `It imports "${specifier}", but the app has no bundle of it, ${file}; ${BUNDLING}.`;
      return [{ rule: 'import', at, message }];
    }
    const typed = file.replace(/\.js$/, '.ts');
    const there = typed !== file && !('refused' in this.#read(typed)) ? ` There is ${typed}.` : '';
    return [{ rule: 'import', at, message: `It imports ${file}, which ${module}.${there}` }];
  }
}

/** A message quotes names of the module, which may have any length. */
function shorten(message: string): string {
  return message.length <= MESSAGE_CHARS ? message : `${message.slice(0, MESSAGE_CHARS)}…`;
}

/** `INVALID_HANDLER` for these findings, at least one; it lists up to `LIMITS.inputIssues`. */
export function invalidHandler(issues: InputIssue[]): SvcError {
  return invalidSources('INVALID_HANDLER', issues);
}

/** `exports` is null where they are unknown without other files, or at all. */
type Inspection = { findings: Finding[]; imports: LocalImport[]; exports: Set<string> | null; lines: Lines };

/** All findings in the text of one module, and its imports; `file` is its path in the app. `step` may throw. */
export function inspect(file: string, text: string, kind: ModuleKind, step: () => void): Inspection {
  const lines = new Lines(text);
  const nothing = { imports: [], exports: null, lines };
  if (file.endsWith('.json')) return { ...nothing, findings: jsonFindings(text) };
  const parsed = parseModule(text, step);
  if (!('program' in parsed)) return { ...nothing, findings: [syntax(parsed)] };
  try {
    const { program, comments } = parsed;
    const { imports, findings } = importsOf(file, program);
    if (kind === 'package') {
      for (const finding of findings) delete finding.applies;
      return { findings, imports, exports: exportsOf(program), lines };
    }
    const waivers = new Waivers(comments, lines);
    const names = new Names(program, step);
    if (kind !== 'module') findings.push(...checkDefaultExport(program));
    const found = [...checkDeterminism(program, names), ...checkReadOnly(program, names, kind === 'query')];
    for (const finding of found) if (!waivers.waives(finding)) findings.push(finding);
    for (const finding of waivers.findings) findings.push(finding);
    return { findings, imports, exports: exportsOf(program), lines };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { ...nothing, findings: [syntax(tooDeep())] };
  }
}

function syntax(fault: SyntaxFault): Finding {
  return { rule: 'syntax', ...fault };
}

function jsonFindings(text: string): Finding[] {
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    return [syntax({ at: 0, message: `It is not valid JSON: ${(error as Error).message}.` })];
  }
}

/** Expressions whose value is never a function. */
const NO_FUNCTIONS = new Set<AnyNode['type']>([
  'ArrayExpression',
  'BinaryExpression',
  'ClassDeclaration',
  'ClassExpression',
  'Literal',
  'ObjectExpression',
  'TemplateLiteral',
  'UnaryExpression',
]);

function checkDefaultExport(program: Program): Finding[] {
  const must = 'a handler must export default an async function.';
  if (!hasDefaultExport(program))
    return [{ rule: 'default-export', at: 0, message: `It has no default export; ${must}` }];
  for (const node of program.body) {
    if (node.type !== 'ExportDefaultDeclaration' || !NO_FUNCTIONS.has(node.declaration.type)) continue;
    return [
      { rule: 'default-export', at: node.declaration.start, message: `Its default export is no function; ${must}` },
    ];
  }
  return [];
}

function hasDefaultExport({ body }: Program): boolean {
  return body.some((node) => {
    if (node.type === 'ExportDefaultDeclaration') return true;
    if (node.type === 'ExportAllDeclaration') return node.exported != null && isDefault(node.exported);
    return node.type === 'ExportNamedDeclaration' && node.specifiers.some(({ exported }) => isDefault(exported));
  });
}

function isDefault(name: AnyNode): boolean {
  return nameOf(name) === 'default';
}
