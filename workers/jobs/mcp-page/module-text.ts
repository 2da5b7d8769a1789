/**
 * Turns a module into a function that does the same (specification, "MCP Apps"): the policy of hosts lets a page run scripts
 * that stand in it, and a script that stands in a page can import nothing. `module-runtime.js` runs these functions in the
 * order of modules.
 */
import type {
  AnyNode,
  ExportDefaultDeclaration,
  ExportNamedDeclaration,
  Identifier,
  ImportDeclaration,
  Program,
} from 'acorn';
import { ancestor } from 'acorn-walk';
import { importedOf, nameOf, namesDeclaredBy } from '../../../protocol/rules/gates/module-names.ts';
import { Names, parseModule, type SyntaxFault, staticText } from '../../../protocol/rules/gates/syntax.ts';
import { Edits } from './edits.ts';

/** `imports` are the specifiers in their order, each once; `code` is an expression, a function of the context and of what it imports. */
export type ModuleText = { imports: string[]; code: string; isAsync: boolean };

/** `dynamic(specifier)` is the key of what `import()` names, and `asset(address)` the address of a file in its place; null for neither. */
export type Resolve = { dynamic(specifier: string): string | null; asset(address: string): string | null };

const PLAIN_NAME = /^[A-Za-z_$][\w$]*$/;
const DEFAULT = /^export\s+default/;
/** Of a function or class that is exported without a name. */
const KEYWORD = /^(?:async\s+)?function\s*\*?|^class/;
const FUNCTIONS = new Set([
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
  'PropertyDefinition',
  'StaticBlock',
]);
/** Where a statement may have an empty one before it. */
const LISTS = new Set(['Program', 'BlockStatement', 'StaticBlock', 'SwitchCase']);

/** Throws a RangeError for a text that nests too deeply, and what `step` throws. */
export function moduleText(text: string, resolve: Resolve, step: () => void): ModuleText | SyntaxFault {
  const parsed = parseModule(text, step);
  if (!('program' in parsed)) return parsed;
  return new ModuleWriter(text, parsed.program, resolve, step).write();
}

class ModuleWriter {
  readonly #text: string;
  readonly #program: Program;
  readonly #resolve: Resolve;
  readonly #names: Names;
  readonly #edits: Edits;
  /** The name of the context and, with a number, of what is imported: none that the text has. */
  readonly #prefix: string;
  readonly #imports: string[] = [];
  /** A value may be a name that is imported: that is known once all imports are. */
  readonly #exports: { name: string; value: string }[] = [];
  readonly #stars: string[] = [];
  /** Name in the text → what it is of a module that is imported. */
  readonly #bindings = new Map<string, string>();
  #isAsync = false;

  constructor(text: string, program: Program, resolve: Resolve, step: () => void) {
    this.#text = text;
    this.#program = program;
    this.#resolve = resolve;
    this.#names = new Names(program, step);
    this.#edits = new Edits(text);
    let prefix = '$m';
    while (text.includes(prefix)) prefix += '_';
    this.#prefix = prefix;
  }

  write(): ModuleText {
    for (const node of this.#program.body) this.#declaration(node);
    this.#walk();
    const context = this.#prefix;
    const parameters = [context, ...this.#imports.map((_, at) => `${context}${at}`)].join(', ');
    const head = this.#text.startsWith('#!') ? '//' : '';
    const getters = this.#exports.map(
      ({ name, value }) => `${JSON.stringify(name)}: () => ${this.#bindings.get(value) ?? value}`,
    );
    const begin = `${context}.export({${getters.join(', ')}}); ${this.#stars.map((star) => `${context}.star(${star}); `).join('')}yield;`;
    const code = `${this.#isAsync ? 'async ' : ''}function* (${parameters}) { "use strict"; ${begin} ${head}${this.#edits.apply()}\n}`;
    return { imports: this.#imports, code, isAsync: this.#isAsync };
  }

  /** Takes imports and exports out of the text. Lines keep their numbers. */
  #declaration(node: Program['body'][number]): void {
    if (node.type === 'ImportDeclaration') this.#import(node);
    else if (node.type === 'ExportNamedDeclaration') this.#export(node);
    else if (node.type === 'ExportDefaultDeclaration') this.#exportDefault(node);
    else if (node.type === 'ExportAllDeclaration') {
      const module = this.#module(node.source);
      if (node.exported) this.#exports.push({ name: nameOf(node.exported), value: module });
      else this.#stars.push(module);
      this.#remove(node);
    }
  }

  #import(node: ImportDeclaration): void {
    const module = this.#module(node.source);
    for (const specifier of node.specifiers) {
      const name = importedOf(specifier);
      const value = name === null ? module : member(module, name);
      this.#bindings.set(specifier.local.name, value);
    }
    this.#remove(node);
  }

  #export(node: ExportNamedDeclaration): void {
    const { declaration, source, specifiers } = node;
    if (declaration) {
      for (const name of namesDeclaredBy(declaration)) this.#exports.push({ name, value: name });
      this.#edits.replace(node.start, node.start + 'export'.length, '');
      return;
    }
    const module = source ? this.#module(source) : null;
    for (const { local, exported } of specifiers) {
      const own = nameOf(local);
      this.#exports.push({ name: nameOf(exported), value: module === null ? own : member(module, own) });
    }
    this.#remove(node);
  }

  #exportDefault({ start, declaration }: ExportDefaultDeclaration): void {
    const isDeclared = declaration.type === 'FunctionDeclaration' || declaration.type === 'ClassDeclaration';
    const name = isDeclared && declaration.id ? declaration.id.name : `${this.#prefix}d`;
    this.#exports.push({ name: 'default', value: name });
    // What follows may begin with a parenthesis, which is no part of the tree.
    const keywords = DEFAULT.exec(this.#text.slice(start))?.[0] ?? '';
    this.#edits.replace(start, start + keywords.length, isDeclared ? '' : `const ${name} =`);
    if (!isDeclared || declaration.id) return;
    const keyword = KEYWORD.exec(this.#text.slice(declaration.start))?.[0] ?? '';
    this.#edits.insert(declaration.start + keyword.length, ` ${name} `);
  }

  /** The parameter that has what a module exports. */
  #module(source: AnyNode): string {
    const specifier = staticText(source) ?? '';
    if (!this.#imports.includes(specifier)) this.#imports.push(specifier);
    return `${this.#prefix}${this.#imports.indexOf(specifier)}`;
  }

  #remove({ start, end }: AnyNode): void {
    this.#edits.replace(start, end, `;${this.#text.slice(start, end).replace(/[^\n]+/g, '')}`);
  }

  /** Names that are imported, `import()`, `import.meta`, and whether it waits. */
  #walk(): void {
    const wait = (ancestors: AnyNode[]): void => {
      if (!ancestors.slice(0, -1).some(({ type }) => FUNCTIONS.has(type))) this.#isAsync = true;
    };
    ancestor(this.#program, {
      Identifier: (node, _state, ancestors) => this.#name(node as Identifier, ancestors),
      AwaitExpression: (_node, _state, ancestors) => wait(ancestors),
      ForOfStatement: (node, _state, ancestors) => {
        if (node.await) wait(ancestors);
      },
      ImportExpression: ({ start, source }) => {
        const specifier = staticText(source);
        const key = specifier === null ? null : this.#resolve.dynamic(specifier);
        this.#edits.replace(start, start + 'import'.length, `${this.#prefix}.load`);
        if (key !== null) this.#edits.replace(source.start, source.end, JSON.stringify(key));
      },
      MetaProperty: ({ start, end, meta }) => {
        if (meta.name === 'import') this.#edits.replace(start, end, `${this.#prefix}.meta`);
      },
      NewExpression: ({ callee, arguments: [address, base] }) => {
        const isUrl = callee.type === 'Identifier' && callee.name === 'URL' && this.#names.isGlobal(callee);
        const text = isUrl && address && base && this.#isOwnUrl(base) ? staticText(address) : null;
        const url = text === null ? null : this.#resolve.asset(text);
        if (address && url !== null) this.#edits.replace(address.start, address.end, JSON.stringify(url));
      },
    });
  }

  #isOwnUrl({ start, end }: AnyNode): boolean {
    return /^import\s*\.\s*meta\s*\.\s*url$/.test(this.#text.slice(start, end));
  }

  #name(node: Identifier, ancestors: AnyNode[]): void {
    const value = this.#bindings.get(node.name);
    if (value === undefined || this.#names.definition(node)?.type !== 'ImportBinding') return;
    const parent = ancestors.at(-2);
    if (parent?.type === 'Property' && parent.shorthand) this.#edits.insert(node.end, `: ${value}`);
    else if (isCalled(node, parent)) {
      // The function is called without an object, and the parenthesis does not continue the line before.
      const isFirst = ancestors.some(
        ({ type, start }, at) =>
          type === 'ExpressionStatement' && start === node.start && LISTS.has((ancestors[at - 1] as AnyNode).type),
      );
      this.#edits.replace(node.start, node.end, `${isFirst ? ';' : ''}(0, ${value})`);
    } else this.#edits.replace(node.start, node.end, value);
  }
}

function isCalled(node: AnyNode, parent: AnyNode | undefined): boolean {
  if (parent?.type === 'CallExpression') return parent.callee === node;
  return parent?.type === 'TaggedTemplateExpression' && parent.tag === node;
}

function member(module: string, name: string): string {
  return PLAIN_NAME.test(name) ? `${module}.${name}` : `${module}[${JSON.stringify(name)}]`;
}
