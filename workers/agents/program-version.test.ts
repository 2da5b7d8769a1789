import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CLAUDE_CODE, INSTALL_CLAUDE_CODE } from '../../protocol/agents/agents.ts';
import { versionReport } from './program-version.ts';

const WANTED = { what: 'Codex', oldest: '0.169.0', install: 'Install it.' };

test('a version is compared by its numbers', () => {
  for (const version of ['0.169.0', '0.169.1', '0.1000.0', '1.0.0', '0.169.0-beta.1'])
    assert.deepEqual(versionReport(version, WANTED), { version });
  for (const version of ['0.168.9', '0.99.0', '0.168.0-beta.1'])
    assert.deepEqual(versionReport(version, WANTED), {
      version,
      fault: `This is Codex ${version}; 0.169.0 or newer is needed. Install it.`,
    });
});

test('Claude Code is named in the version that the tests run', () => {
  const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  assert.equal(JSON.parse(read('scripts/agents/package.json')).dependencies['@anthropic-ai/claude-code'], CLAUDE_CODE);
  assert.ok(read('docs/agents.md').includes(INSTALL_CLAUDE_CODE));
});
