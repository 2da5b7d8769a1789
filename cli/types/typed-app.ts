/** Converts the blank app to TypeScript: the same handlers with typed arguments, and a `tsconfig.json` for editors. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkManifest } from '../../protocol/rules/manifest-check.ts';
import { declarationsOf } from './declarations.ts';

const HANDLER = /^(queries|actions)\/([^/]+)\.js$/;
const SIGNATURE = /^(export default async function \w+\(\{[^}]*\})\)/m;

/** What an editor and `tsc` check: syntax that can be erased, imports with the endings that files have, no `lib` of Node. */
const TSCONFIG = {
  compilerOptions: {
    target: 'esnext',
    module: 'esnext',
    moduleResolution: 'bundler',
    lib: ['esnext', 'dom'],
    types: [],
    strict: true,
    noEmit: true,
    allowJs: true,
    resolveJsonModule: true,
    allowImportingTsExtensions: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    // The module that `svc test` provides.
    paths: { 'svc/test': ['./svc.d.ts'] },
  },
  include: ['svc.d.ts', 'queries', 'actions', 'automations', 'lib', 'tests'],
};

/** Rewrites the app's files in `folder`; answers their paths. */
export function typeBlankApp(folder: string, id: string, files: string[]): string[] {
  const written = files.map((file) => {
    const [, kind, name] = HANDLER.exec(file) ?? [];
    if (kind === undefined) return file;
    const path = join(folder, file);
    const typed = file.replace(/\.js$/, '.ts');
    const args = kind === 'queries' ? 'QueryArgs' : 'ActionArgs';
    const text = readFileSync(path, 'utf8').replace(SIGNATURE, `$1: ${args}<'${name}'>)`);
    writeFileSync(path, `import type { ${args} } from '../svc.d.ts';\n\n${text}`);
    renameSync(path, join(folder, typed));
    return typed;
  });
  const manifest = checkManifest(readFileSync(join(folder, 'app.json'), 'utf8'), id);
  writeFileSync(join(folder, 'svc.d.ts'), declarationsOf(manifest));
  writeFileSync(join(folder, 'tsconfig.json'), `${JSON.stringify(TSCONFIG, null, 2)}\n`);
  return [...written, 'svc.d.ts', 'tsconfig.json'].sort();
}
