/**
 * Turns a module of an app into the body of a function, at the same lines and columns, so that stacks say the same (specification,
 * "Commons"). A module of Node's `vm` would keep its context for ever.
 */
import {
  type AnyNode,
  type AssignmentExpression,
  type CallExpression,
  type ExportDefaultDeclaration,
  type ExportNamedDeclaration,
  type Identifier,
  type ImportDeclaration,
  type Program,
  tokTypes,
  type UnaryExpression,
} from 'acorn';
import { fullAncestor } from 'acorn-walk';
import { analyze, type Scope } from 'eslint-scope';
import { type CommonsModule, type KeptReason, NOT_GIVEN } from '../../wire/commons.ts';
import { isOfPackage, resolveSpecifier } from '../handler-imports.ts';
import { importedOf, nameOf, namesDeclaredBy } from './module-names.ts';
import { parseModule, staticKey } from './syntax.ts';

/** Why an app has to have threads of its own. */
export class KeptOut extends Error {
  readonly reason: KeptReason;

  constructor(reason: KeptReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Where the text does not name it, the app gets to know when it uses it. */
const MISSING: ReadonlySet<string> = new Set(NOT_GIVEN);

/** Methods that change a collection. */
const CHANGES = new Set('add clear copyWithin delete fill pop push reverse set shift sort splice unshift'.split(' '));

/** All exports, in the script. */
const ALL = '*';

/** Short enough to stand, with what follows it, in the place of `export default`. */
const EXPORTERS = ['$', '$$', '_$', '$_'];

/** A module, and the names that it exports itself. `again` of it exports more. */
export type Converted = { module: CommonsModule; exported: Set<string> };

/** Throws `KeptOut`. `step` is called with every token. */
export function convertModule(file: string, text: string, step: () => void): Converted {
  const parsed = parseModule(text, ({ type, start }) => {
    step();
    // In a function, but not in a module, a comment begins there: other code would run than the code that is checked here.
    if (type === tokTypes.relational && text.startsWith('<!--', start))
      throw new KeptOut('modules', `${file} has "<!--" outside of texts.`);
  });
  if (!('program' in parsed)) throw new KeptOut('modules', `${file} does not parse.`);
  const { program } = parsed;
  const parents = parentsIn(file, program, step);
  const conversion = new Conversion(file, text);
  const converted = conversion.of(program);
  checkNames(file, program, parents, conversion.exportedLocals);
  return converted;
}

class Conversion {
  readonly #file: string;
  readonly #text: string;
  readonly #exporter: string;
  readonly #edits: { start: number; end: number; text: string }[] = [];
  readonly #module: CommonsModule = { body: '', params: [], imports: [], again: [], needs: [] };
  readonly #exported = new Set<string>();
  /** Exported name → the name in the module. */
  readonly #own: [string, string][] = [];

  constructor(file: string, text: string) {
    this.#file = file;
    this.#text = text;
    const exporter = EXPORTERS.find((name) => !text.includes(name));
    if (exporter === undefined) throw new KeptOut('modules', `${file} uses the names ${EXPORTERS.join(', ')}.`);
    this.#exporter = exporter;
  }

  of(program: Program): Converted {
    if (this.#text.startsWith('#!')) this.#blank(0, /[\r\n\u2028\u2029]|$/.exec(this.#text)?.index ?? 0);
    for (const node of program.body) this.#statement(node);
    const own = this.#own.map(([name, local]) => `${JSON.stringify(name)}:${local}`);
    const end = own.length === 0 ? '' : `\n;${this.#exporter}({${own.join()}});`;
    this.#module.body = this.#edited() + end;
    this.#module.params.push(this.#exporter);
    return { module: this.#module, exported: this.#exported };
  }

  /** The names in the module of what it exports. */
  get exportedLocals(): Set<string> {
    return new Set(this.#own.map(([, local]) => local));
  }

  #statement(node: Program['body'][number]): void {
    switch (node.type) {
      case 'ImportDeclaration':
        this.#import(node);
        return;
      case 'ExportAllDeclaration': {
        const name = node.exported ? this.#one(nameOf(node.exported)) : ALL;
        this.#module.again.push([name, this.#needs(node.source), ALL]);
        this.#drop(node.start, node.end);
        return;
      }
      case 'ExportDefaultDeclaration':
        this.#default(node);
        return;
      case 'ExportNamedDeclaration':
        this.#named(node);
    }
  }

  #import({ specifiers, source, start, end }: ImportDeclaration): void {
    const from = this.#needs(source);
    for (const specifier of specifiers) {
      this.#module.params.push(specifier.local.name);
      const name = importedOf(specifier);
      this.#module.imports.push([from, name === null ? ALL : this.#one(name)]);
    }
    this.#drop(start, end);
  }

  #named({ declaration, source, specifiers, start, end }: ExportNamedDeclaration): void {
    if (declaration) {
      this.#blank(start, start + 'export'.length);
      for (const name of namesDeclaredBy(declaration)) this.#export(name, name);
      return;
    }
    const from = source ? this.#needs(source) : null;
    for (const { exported, local } of specifiers) {
      if (from === null) this.#export(nameOf(exported), nameOf(local));
      else this.#module.again.push([this.#one(nameOf(exported)), from, this.#one(nameOf(local))]);
    }
    this.#drop(start, end);
  }

  #default({ start, end, declaration }: ExportDefaultDeclaration): void {
    const keyword = /^export(?:\s|\/\*[\s\S]*?\*\/|\/\/.*)*?default/.exec(this.#text.slice(start))?.[0] ?? '';
    const isNamed = 'id' in declaration && declaration.id != null && declaration.type.endsWith('Declaration');
    if (isNamed) {
      this.#blank(start, start + keyword.length);
      this.#export('default', (declaration.id as Identifier).name);
      return;
    }
    this.#exported.add('default');
    // An anonymous function gets its name from the member, as it does from the declaration.
    const opening = `${this.#exporter}({default:`;
    if (keyword.includes('\n')) throw new KeptOut('modules', `${this.#file} breaks the line in "export default".`);
    this.#edits.push({ start, end: start + keyword.length, text: opening.padEnd(keyword.length) });
    const last = this.#text[end - 1] === ';' ? end - 1 : end;
    this.#edits.push({ start: last, end: last, text: '});' });
  }

  #export(name: string, local: string): void {
    this.#exported.add(name);
    this.#own.push([name, local]);
  }

  #needs(source: AnyNode): string {
    const target = resolveSpecifier(String((source as { value?: unknown }).value), this.#file);
    if ('refused' in target) throw new KeptOut('modules', `${this.#file} imports what it may not.`);
    if (!this.#module.needs.includes(target.file)) this.#module.needs.push(target.file);
    return target.file;
  }

  /** The name of one export. */
  #one(name: string): string {
    if (name === ALL) throw new KeptOut('modules', `${this.#file} has an export with the name "${ALL}".`);
    return name;
  }

  /** A statement. It ended the one before it, which may have no semicolon. */
  #drop(start: number, end: number): void {
    this.#edits.push({ start, end: start + 1, text: ';' });
    this.#blank(start + 1, end);
  }

  #blank(start: number, end: number): void {
    this.#edits.push({ start, end, text: this.#text.slice(start, end).replace(/[^\r\n\u2028\u2029]/g, ' ') });
  }

  #edited(): string {
    let edited = '';
    let at = 0;
    for (const { start, end, text } of this.#edits) {
      edited += this.#text.slice(at, start) + text;
      at = end;
    }
    return edited + this.#text.slice(at);
  }
}

/** The parent of each node. Throws `KeptOut` for what only a module can say. */
function parentsIn(file: string, program: Program, step: () => void): Map<AnyNode, AnyNode> {
  const parents = new Map<AnyNode, AnyNode>();
  fullAncestor(program, (node, _state, ancestors) => {
    step();
    const parent = ancestors.at(-2);
    if (parent !== undefined) parents.set(node as AnyNode, parent as AnyNode);
    const type: string = node.type;
    if (type === 'ImportExpression') throw new KeptOut('modules', `${file} uses import().`);
    if (type === 'MetaProperty' && (node as { meta?: Identifier }).meta?.name === 'import')
      throw new KeptOut('modules', `${file} uses import.meta.`);
    const waits = type === 'AwaitExpression' || (type === 'ForOfStatement' && (node as { await?: boolean }).await);
    if (waits && !ancestors.some((one) => one !== node && /Function|MethodDefinition|StaticBlock/.test(one.type)))
      throw new KeptOut('modules', `${file} uses await outside of functions.`);
  });
  return parents;
}

/**
 * Throws `KeptOut` for state in the module, and for globals that are not given. Libraries keep what they like, and look around; but who
 * imports from them gets the value that an export has once the module has run.
 */
function checkNames(
  file: string,
  program: Program,
  parents: ReadonlyMap<AnyNode, AnyNode>,
  exported: ReadonlySet<string>,
): void {
  const { scopes } = analyze(program as Parameters<typeof analyze>[0], { ecmaVersion: 2022, sourceType: 'module' });
  const [globals, module] = scopes as [Scope, Scope];
  const ofPackage = isOfPackage(file);
  for (const { identifier } of globals.through) {
    const { name } = identifier as unknown as Identifier;
    if (name === 'arguments') throw new KeptOut('modules', `${file} uses "arguments" outside of functions.`);
    if (MISSING.has(name) && !ofPackage) throw new KeptOut('globals', `${file} uses ${name}.`);
  }
  for (const variable of module.variables) {
    const used = variable.references.filter(({ from }) => from.variableScope !== module);
    const isChanged = ofPackage
      ? exported.has(variable.name) && used.some((reference) => reference.isWrite())
      : used.some((reference) => reference.isWrite() || changes(reference.identifier as unknown as AnyNode, parents));
    if (isChanged)
      throw new KeptOut('state', `A function of ${file} changes "${variable.name}", which all calls share.`);
  }
}

/** Whether what follows the name changes what the variable holds. */
function changes(name: AnyNode, parents: ReadonlyMap<AnyNode, AnyNode>): boolean {
  let node = name;
  let key: string | null = null;
  let parent = parents.get(node);
  for (; parent !== undefined; parent = parents.get(node)) {
    if (parent.type === 'MemberExpression' && parent.object === node) key = staticKey(parent.property, parent.computed);
    else if (parent.type !== 'ChainExpression') break;
    node = parent;
  }
  switch (node === name ? undefined : parent?.type) {
    case 'AssignmentExpression':
      return (parent as AssignmentExpression).left === node;
    case 'UpdateExpression':
      return true;
    case 'UnaryExpression':
      return (parent as UnaryExpression).operator === 'delete';
    case 'CallExpression':
      return (parent as CallExpression).callee === node && key !== null && CHANGES.has(key);
    default:
      return false;
  }
}
