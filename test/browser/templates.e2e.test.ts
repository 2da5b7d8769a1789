/** Runs the suites of all templates, `templates/<id>.ts`, with one gateway and one browser. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from 'node:test';
import { root } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';

const ids = readdirSync(join(root, 'templates')).filter((id) => !id.startsWith('_'));
const suites = await Promise.all(
  ids.map(async (id) => ({ id, ...((await import(`./templates/${id}.ts`)) as { suite(): void }) })),
);

for (const { id, suite } of suites) describe(id, { skip: withoutChromium() }, suite);
