// The templates and examples that ship with the gateway break no rule: whoever clones one can publish it.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkHandlers, type HandlerSource } from './check-handlers.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
const apps = ['templates', 'examples'].flatMap((folder) =>
  readdirSync(join(root, folder)).map((id) => join(folder, id)),
);

for (const app of apps.filter((path) => existsSync(join(root, path, 'app.json')))) {
  test(app, () => {
    const { queries = [], actions = [] } = JSON.parse(readFileSync(join(root, app, 'app.json'), 'utf8'));
    const automations = join(root, app, 'automations');
    const ids = existsSync(automations) ? readdirSync(automations) : [];
    assert.ok(queries.length + actions.length + ids.length > 0 || app.endsWith('_blank'), 'nothing is checked');
    const read = (file: string): HandlerSource => {
      const path = join(root, app, file);
      return existsSync(path) ? { text: readFileSync(path, 'utf8') } : { refused: 'does not exist' };
    };
    assert.deepEqual(checkHandlers(read, { queries, actions }, ids), []);
  });
}
