import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draftKey } from '../../../protocol/ids.ts';
import type { Capability } from '../../../protocol/routes/row.ts';
import { tokenCaller } from './callers.ts';
import { may } from './grants.ts';
import type { TokenTools } from './program-tokens.ts';

const CAPABILITIES: Capability[] = ['page', 'read', 'stream', 'write', 'settings', 'manage', 'make', 'admin'];

const MAY: Record<TokenTools, Capability[]> = {
  read: ['page', 'read', 'stream'],
  write: ['page', 'read', 'stream', 'write', 'settings'],
  all: ['page', 'read', 'stream', 'write', 'settings', 'manage'],
};

for (const [tools, allowed] of Object.entries(MAY) as [TokenTools, Capability[]][]) {
  test(`a token for "${tools}" may only ${allowed.join(', ')}`, () => {
    for (const capability of CAPABILITIES) {
      const wanted = allowed.includes(capability);
      const one = { tools, apps: ['todos', 'notes'] };
      const every = { tools, apps: null };
      const rows: [grant: typeof one | typeof every, app: string | null, wanted: boolean][] = [
        [one, 'todos', wanted],
        [one, 'notes', wanted],
        [one, 'other', false],
        // These names only resemble one of its own.
        [one, 'todo', false],
        [one, 'todos2', false],
        [one, '', false],
        // All apps together are more than its own.
        [one, null, false],
        [{ tools, apps: [] as string[] }, 'todos', false],
        // Drafts are for those who manage the app.
        [one, draftKey('redesign', 'todos'), wanted && tools === 'all'],
        [one, draftKey('todos', 'other'), false],
        [every, draftKey('redesign', 'todos'), wanted && tools === 'all'],
        [every, 'todos', wanted],
        [every, null, wanted],
      ];
      for (const [grant, app, expected] of rows) {
        const caller = tokenCaller({ id: 'tok_1', name: 'zapier', expiresAt: null, ...grant }, () => true);
        assert.equal(may(caller, capability, app), expected, `${capability} on ${app} with ${JSON.stringify(grant)}`);
      }
    }
  });
}
