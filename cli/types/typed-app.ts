/** Converts the blank app to TypeScript: the same handlers and page with types, and a `tsconfig.json` for editors. */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { STATIC_TYPES } from '../../protocol/http/media-types.ts';
import { checkManifest } from '../../protocol/rules/manifest-check.ts';
import { PAGE_MODULES } from '../../protocol/rules/page-build.ts';
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
    jsx: 'react-jsx',
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
  include: ['svc.d.ts', 'page.d.ts', 'app.ts', 'queries', 'actions', 'automations', 'lib', 'tests'],
};

/** What its page is built from, and what of `app.js` is typed there: the text, and what takes its place. */
const PAGE = 'app.ts';
const PAGE_TYPES: [text: string, typed: string][] = [
  [
    'const { svc } = window;\n',
    "import type { Svc } from './svc.d.ts';\n\ntype Note = { id: number; text: string; createdAt: number };\n\nconst svc: Svc = window.svc;\n",
  ],
  ['(id) => document.getElementById(id)', '(id: string) => document.getElementById(id) as HTMLInputElement'],
  ['function show(notes)', 'function show(notes: Note[]): void'],
  ['function drawNote(note)', 'function drawNote(note: Note): HTMLElement'],
  ['function problem(error)', 'function problem(error?: Error): void'],
  ['function settle(work)', 'function settle(work: Promise<unknown>): void'],
  ['event.target.reset()', '(event.target as HTMLFormElement).reset()'],
];

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
  writeFileSync(join(folder, PAGE), typedPage(readFileSync(join(folder, 'app.js'), 'utf8')));
  rmSync(join(folder, 'app.js'));
  const manifestFile = join(folder, 'app.json');
  const entry = `  "page": { "entry": "${PAGE}" },\n  "queries": [`;
  writeFileSync(manifestFile, readFileSync(manifestFile, 'utf8').replace('  "queries": [', entry));
  const manifest = checkManifest(readFileSync(manifestFile, 'utf8'), id);
  writeFileSync(join(folder, 'svc.d.ts'), declarationsOf(manifest));
  writeFileSync(join(folder, 'page.d.ts'), importedByPages());
  writeFileSync(join(folder, 'tsconfig.json'), `${JSON.stringify(TSCONFIG, null, 2)}\n`);
  return [...written.filter((file) => file !== 'app.js'), PAGE, 'page.d.ts', 'svc.d.ts', 'tsconfig.json'].sort();
}

function typedPage(script: string): string {
  return PAGE_TYPES.reduce((text, [plain, typed]) => text.replace(plain, typed), script);
}

/** What a page with a build may import beside modules: styles, the address of a picture or font, texts. */
function importedByPages(): string {
  const modules: readonly string[] = [...PAGE_MODULES, '.html', '.htm', '.map'];
  const values = [...Object.keys(STATIC_TYPES), '.txt', '.md'].filter((ending) => !modules.includes(ending));
  const declared = values.map(
    (ending) => `declare module '*${ending}' {\n  const value: string;\n  export default value;\n}\n`,
  );
  return `// What a page with a build may import: the address of a picture or font, a text, styles.\n\ndeclare module '*.css';\n${declared.join('')}`;
}
