/** Everything that is to be found in the text of one module, and what it imports. */
import type { AnyNode, Program } from 'acorn';
import { ancestor } from 'acorn-walk';
import { isNodeModule, resolveSpecifier } from '../handler-imports.ts';
import { checkDeterminism } from './determinism.ts';
import { Names, staticText } from './names.ts';
import { Lines, parseModule, type SyntaxFault, type TimeBudget, tooDeep } from './parse.ts';
import { checkReadOnly } from './read-only-queries.ts';
import { type Finding, type Reach, Waivers } from './rules.ts';

/** An import of a file of the app. A missing one is a fault where it is `needed`: when the module cannot load without. */
export type LocalImport = { file: string; at: number; needed: boolean };

export type Inspection = { findings: Finding[]; imports: LocalImport[]; lines: Lines };

/** What a file is by its name: only handlers need a default export. */
export type ModuleKind = 'query' | 'action' | 'automation' | 'module';

const outsideAutomations = ({ automation }: Reach): boolean => !automation;

/** `file` is the path in the app, which imports start from. Throws `TookTooLong`. */
export function inspect(file: string, text: string, kind: ModuleKind, { step }: TimeBudget): Inspection {
  const lines = new Lines(text);
  if (file.endsWith('.json')) return { findings: jsonFindings(text), imports: [], lines };
  const parsed = parseModule(text, step);
  if (!('program' in parsed)) return { findings: [syntax(parsed)], imports: [], lines };
  try {
    const { program, comments } = parsed;
    const waivers = new Waivers(comments, lines);
    const names = new Names(program, step);
    const { imports, findings } = importsOf(file, program);
    if (kind !== 'module') findings.push(...checkDefaultExport(program));
    const found = [...checkDeterminism(program, names), ...checkReadOnly(program, names, kind === 'query')];
    for (const finding of found) if (!waivers.waives(finding)) findings.push(finding);
    for (const finding of waivers.findings) findings.push(finding);
    return { findings, imports, lines };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { findings: [syntax(tooDeep())], imports: [], lines };
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

/** Values that are no function, whatever is in them. */
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
  return name.type === 'Identifier' ? name.name === 'default' : staticText(name) === 'default';
}

/** The app's own files that a module imports, and imports that the loader of handlers refuses whatever is there. */
function importsOf(file: string, program: Program): { imports: LocalImport[]; findings: Finding[] } {
  const imports: LocalImport[] = [];
  const findings: Finding[] = [];
  const add = (source: AnyNode | null | undefined, needed: boolean): void => {
    const specifier = source ? staticText(source) : null;
    if (!source || specifier === null) return;
    const target = resolveSpecifier(specifier, file);
    if ('file' in target) imports.push({ file: target.file, at: source.start, needed });
    else if (needed) {
      const message = `It imports "${specifier}": ${target.refused}`;
      // In automations that is a matter of determinism, with a rule of its own.
      const applies = isNodeModule(specifier) ? { applies: outsideAutomations } : {};
      findings.push({ rule: 'import', at: source.start, message, ...applies });
    }
  };
  for (const node of program.body) {
    if ('source' in node) add(node.source, true);
  }
  ancestor(program, { ImportExpression: ({ source }) => add(source, false) });
  return { imports, findings };
}
