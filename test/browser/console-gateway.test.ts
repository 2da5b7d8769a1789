/** The console's Home, System, notices, automations, runs, palette and people, driven in a browser: suites on one gateway. */
import { describe } from 'node:test';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { automationsSuite } from './console-automations.ts';
import { homeSuite } from './console-home.ts';
import { NOWHERE, noticesSuite } from './console-notices.ts';
import { paletteSuite } from './console-palette.ts';
import { peopleSuite } from './console-people.ts';

describe('the console', () => {
  const gateway = gatewayOfSuite({ apps: ['todos', 'guestbook'], config: { notify: [NOWHERE] } });
  homeSuite(gateway);
  noticesSuite(gateway);
  automationsSuite(gateway);
  paletteSuite(gateway);
  peopleSuite(gateway);
});
