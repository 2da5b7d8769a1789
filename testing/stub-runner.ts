/** For tests of chats with agents: the configuration of the scripted agent, and its messages. */
import { join } from 'node:path';
import { root } from './gateway.ts';

/** `runners` of the configuration: the scripted agent, with models to choose from. */
export const STUB_RUNNERS = {
  runners: { stub: { kind: 'acp', command: [process.execPath, join(root, 'testing/stub-agent.mjs'), '--models'] } },
};

/** A message that makes it take these steps. */
export const script = (...steps: string[]): string => steps.join('\n');
