/** Makes Node load the tests of an app (`node --import dist/test-register.js`). */
import { register } from 'node:module';
import type { HookData } from './hooks.ts';
import type { Prepared } from './parts.ts';

// The runner itself, which this is loaded into too, loads none of them.
if (process.env.NODE_TEST_CONTEXT !== undefined) loadTests();

function loadTests(): void {
  const { folder } = JSON.parse(process.env.SVC_TEST ?? '{}') as Prepared;
  const harness = new URL('./test.js', import.meta.url).href;
  register<HookData>('./test-hooks.js', import.meta.url, { data: { folder, harness } });
}
