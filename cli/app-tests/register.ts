/** Makes Node load the tests of an app (`node --import dist/test-register.js`). */
import { register } from 'node:module';
import type { HookData } from './hooks.ts';
import type { Prepared } from './parts.ts';

const { folder } = JSON.parse(process.env.SVC_TEST ?? '{}') as Prepared;
const harness = new URL('./test.js', import.meta.url).href;
register<HookData>('./test-hooks.js', import.meta.url, { data: { folder, harness } });
