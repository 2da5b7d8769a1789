/** Lists what a module imports and exports, from its syntax tree. */
import type { AnyNode, Declaration, ImportDeclaration, Pattern, Program } from 'acorn';
import { ancestor } from 'acorn-walk';
import { isNodeModule, resolveSpecifier } from '../handler-imports.ts';
import type { Finding, Reach } from './rules.ts';
import { staticText } from './syntax.ts';

/**
 * An import of a file of the app or of a package. A missing one is a fault where it is `needed`: when the module cannot load without.
 * `whole` when more than `names` of it may be used.
 */
export type LocalImport = {
  specifier: string;
  file: string;
  at: number;
  needed: boolean;
  names: { name: string; at: number }[];
  whole: boolean;
};

const outsideAutomations = ({ automation }: Reach): boolean => !automation;

/** What a module imports, and the imports that the loader of handlers always refuses. */
export function importsOf(file: string, program: Program): { imports: LocalImport[]; findings: Finding[] } {
  const imports: LocalImport[] = [];
  const findings: Finding[] = [];
  const add = (
    source: AnyNode | null | undefined,
    needed: boolean,
    used: Pick<LocalImport, 'names' | 'whole'> = { names: [], whole: true },
  ): void => {
    const specifier = source ? staticText(source) : null;
    if (!source || specifier === null) return;
    const target = resolveSpecifier(specifier, file);
    if ('file' in target) imports.push({ specifier, file: target.file, at: source.start, needed, ...used });
    else if (needed) {
      const message = `It imports "${specifier}": ${target.refused}`;
      // Automations have another rule for it.
      const applies = isNodeModule(specifier) ? { applies: outsideAutomations } : {};
      findings.push({ rule: 'import', at: source.start, message, ...applies });
    }
  };
  for (const node of program.body) {
    if ('source' in node) add(node.source, true, usedOf(node));
  }
  ancestor(program, { ImportExpression: ({ source }) => add(source, false) });
  return { imports, findings };
}

function usedOf(node: Program['body'][number]): Pick<LocalImport, 'names' | 'whole'> {
  if (node.type !== 'ImportDeclaration' && node.type !== 'ExportNamedDeclaration') return { names: [], whole: true };
  const names = node.specifiers.flatMap((specifier) => {
    const at = specifier.start;
    if (specifier.type === 'ExportSpecifier') return [{ name: nameOf(specifier.local), at }];
    const name = importedOf(specifier);
    return name === null ? [] : [{ name, at }];
  });
  return { names, whole: names.length < node.specifiers.length };
}

/** Null where a module exports what another one does, or the parts of a value. */
export function exportsOf({ body }: Program): Set<string> | null {
  const names = new Set<string>();
  for (const node of body) {
    if (node.type === 'ExportDefaultDeclaration') names.add('default');
    if (node.type === 'ExportAllDeclaration') {
      if (!node.exported) return null;
      names.add(nameOf(node.exported));
    }
    if (node.type !== 'ExportNamedDeclaration') continue;
    for (const { exported } of node.specifiers) names.add(nameOf(exported));
    for (const id of declaredBy(node.declaration)) {
      if (id.type !== 'Identifier') return null;
      names.add(id.name);
    }
  }
  return names;
}

function declaredBy(declaration: Declaration | null | undefined): Pattern[] {
  if (!declaration) return [];
  return declaration.type === 'VariableDeclaration' ? declaration.declarations.map(({ id }) => id) : [declaration.id];
}

/** The names that a declaration, or a pattern of one, declares. */
export function namesDeclaredBy(declaration: Declaration): string[] {
  return declaredBy(declaration).flatMap(namesIn);
}

function namesIn(pattern: Pattern | null): string[] {
  switch (pattern?.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((one) => namesIn(one.type === 'RestElement' ? one.argument : one.value));
    case 'ArrayPattern':
      return pattern.elements.flatMap(namesIn);
    case 'AssignmentPattern':
      return namesIn(pattern.left);
    case 'RestElement':
      return namesIn(pattern.argument);
    default:
      return [];
  }
}

/** The export that an import takes, null for all of them. */
export function importedOf(specifier: ImportDeclaration['specifiers'][number]): string | null {
  if (specifier.type === 'ImportDefaultSpecifier') return 'default';
  return specifier.type === 'ImportNamespaceSpecifier' ? null : nameOf(specifier.imported);
}

export function nameOf(name: AnyNode): string {
  return name.type === 'Identifier' ? name.name : (staticText(name) ?? '');
}
