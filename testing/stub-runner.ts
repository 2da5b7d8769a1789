/** For tests of chats with agents: the configuration of the scripted agent, and its messages. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './gateway.ts';

/** Where it keeps its sessions, which it opens again in each turn. */
const keep = mkdtempSync(join(tmpdir(), 'svc-acp-'));
process.on('exit', () => rmSync(keep, { recursive: true, force: true }));

/** `runners` of the configuration: the scripted agent, with models to choose from. */
export const STUB_RUNNERS = {
  runners: {
    stub: {
      kind: 'acp',
      command: [process.execPath, join(root, 'testing/stub-agent.mjs'), '--models', '--keep', keep],
    },
  },
};

/** A message that makes it take these steps. */
export const script = (...steps: string[]): string => steps.join('\n');
