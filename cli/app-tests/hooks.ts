/**
 * Loads the test files of an app (a module of Node's loader thread, `dist/test-hooks.js`): `svc/test` is the harness,
 * and the files of the app are ES modules with any `package.json` beside them, TypeScript without its types, JSON as
 * its value.
 */
import { readFileSync, realpathSync } from 'node:fs';
import type { InitializeHook, LoadHook, ResolveHook } from 'node:module';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Lines } from '../../protocol/rules/gates/syntax.ts';

/** The app's folder, and the address of the harness. */
export type HookData = { folder: string; harness: string };

const MODULE = /\.(?:js|ts|json)$/;

let root = '';
let harness = '';

export const initialize: InitializeHook<HookData> = (data) => {
  root = realpathSync(data.folder) + sep;
  harness = data.harness;
};

export const resolve: ResolveHook = (specifier, context, next) =>
  specifier === 'svc/test' ? { url: harness, shortCircuit: true } : next(specifier, context);

export const load: LoadHook = async (url, context, next) => {
  const file = url.startsWith('file:') ? fileURLToPath(url) : '';
  const isOurs = file.startsWith(root) && MODULE.test(file) && !file.includes(`${sep}node_modules${sep}`);
  if (!isOurs || context.importAttributes.type !== undefined) return await next(url, context);
  const text = readFileSync(file, 'utf8');
  return { format: 'module', source: await moduleOf(file, text), shortCircuit: true };
};

async function moduleOf(file: string, text: string): Promise<string> {
  if (file.endsWith('.json')) return `export default ${text};`;
  if (!file.endsWith('.ts')) return text;
  const { eraseTypes } = await import('../../protocol/rules/gates/erase-types.ts');
  const erased = eraseTypes(text);
  if ('text' in erased) return erased.text;
  const { line, column } = new Lines(text).position(erased.at);
  throw new SyntaxError(`${file}:${line}:${column}: ${erased.message}`);
}
