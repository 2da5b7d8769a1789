/** The console's Home, System, automations, runs and palette, driven in a browser: suites on one gateway. */
import { describe } from 'node:test';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { automationsSuite } from './console-automations.ts';
import { homeSuite } from './console-home.ts';
import { paletteSuite } from './console-palette.ts';

describe('the console', () => {
  const gateway = gatewayOfSuite({ apps: ['todos', 'guestbook'] });
  homeSuite(gateway);
  automationsSuite(gateway);
  paletteSuite(gateway);
});
