/** Writes the declarations of an app: what its handlers get, its tools by name, and `window.svc`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ActionDefinition, Manifest, QueryDefinition } from '../../protocol/manifest.ts';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import { comment, memberName, typeOfSchema } from './schema-type.ts';

const HEAD = '// Made by `svc types` from app.json; make it again when the manifest changes.\n\n';

/** The text of `svc.d.ts`. */
export function declarationsOf({ queries, actions }: Pick<Manifest, 'queries' | 'actions'>): string {
  const common = readFileSync(join(packageRoot, 'schemas/svc.d.ts'), 'utf8').replace(/^ *\/\/ biome-ignore.*\n/gm, '');
  return `${HEAD}${tools('Queries', queries)}\n${tools('Actions', actions)}\n${common}`;
}

function tools(name: string, list: (QueryDefinition | ActionDefinition)[]): string {
  const members = list.map((tool) => {
    const { input = { type: 'object' }, output } = tool;
    // Nothing is promised of a result without a schema.
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
