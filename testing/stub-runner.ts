/** For tests of people's ways to agents: the configuration of the scripted one, and what it is told to do. */
import { join } from 'node:path';
import { root } from './gateway.ts';

/** `runners` of the configuration: the scripted agent, with models to choose from. */
export const STUB_RUNNERS = {
  runners: { stub: { kind: 'acp', command: [process.execPath, join(root, 'testing/stub-agent.mjs'), '--models'] } },
};

/** A message that makes it take these steps. */
export const script = (...steps: string[]): string => steps.join('\n');
