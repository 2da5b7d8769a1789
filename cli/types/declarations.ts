/**
 * Writes the declarations of an app (arguments of handlers and tests, its tools by name, `window.svc`), or a client of
 * its tools.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ActionDefinition, Manifest, QueryDefinition } from '../../protocol/manifest.ts';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import { comment, memberName, typeOfSchema } from './schema-type.ts';

const HEAD = '// Made by `svc types` from app.json; run it again when the manifest changes.\n\n';

/** The text of `svc.d.ts`. */
export function declarationsOf({ queries, actions }: Pick<Manifest, 'queries' | 'actions'>): string {
  return [
    `${HEAD}${tools('Queries', queries)}`,
    tools('Actions', actions),
    common('schemas/svc.d.ts'),
    common('schemas/svc-test.d.ts'),
  ].join('\n');
}

/** The text of a TypeScript module that calls the tools of the app from outside of its pages. */
export function clientOf({ id, queries, actions }: Pick<Manifest, 'id' | 'queries' | 'actions'>): string {
  return [
    `${HEAD}const APP = ${JSON.stringify(id)};\n\n${tools('Queries', queries)}`,
    tools('Actions', actions),
    common('schemas/svc-client.ts'),
  ].join('\n');
}

function common(file: string): string {
  return readFileSync(join(packageRoot, file), 'utf8').replace(/^ *\/\/ biome-ignore.*\n/gm, '');
}

function tools(name: string, list: (QueryDefinition | ActionDefinition)[]): string {
  const members = list.map((tool) => {
    const { input = { type: 'object' }, output } = tool;
    // Without a schema, the result may have any type.
    const result = output === undefined ? 'any' : typeOfSchema(output, '    ');
    const types = `    input: ${objectType(typeOfSchema(input, '    '))};\n    output: ${result};\n`;
    return `${comment(tool.description, '  ')}  ${memberName(tool.name)}: {\n${types}  };\n`;
  });
  return `export interface ${name} {\n${members.join('')}}\n`;
}

/** Inputs are objects, also where the schema does not say so. */
function objectType(type: string): string {
  return type === 'unknown' || type === 'never' ? 'Record<string, unknown>' : type;
}
