/** The script that draws what CI runs, in a repository of its own. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { root } from './gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-parts-'));
const LIST = '.ci/parts.json';
const CAMPAIGNS = [
  'kill',
  'runs',
  'turns',
  'stop',
  'power',
  'disk',
  'crash',
  'runaway',
  'smuggling',
  'clients',
  'cluster',
];

const LONG = ['agents', 'openclaw', 'installs'];

const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], {
    cwd: folder,
    encoding: 'utf8',
  }).trim();

function commit(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
  git('add', path);
  git('commit', '-qm', path);
}

/** What CI would run for the commit: the variables of `.ci/run`, and what the script says beside them. */
function drawn() {
  const { stdout, stderr } = spawnSync(process.execPath, ['scripts/parts.mjs', 'drawn'], {
    cwd: folder,
    encoding: 'utf8',
  });
  const [, whole, campaigns = '', leftOut = ''] =
    /^whole=(\d+)\ncampaigns='([a-z ]*)'\nleft_out='([a-z0-9,-]*)'\n$/.exec(stdout) ?? assert.fail(stdout + stderr);
  return { whole, campaigns: campaigns.split(' '), leftOut: leftOut.split(','), said: stderr };
}

/** Notes the next draw, commits it, and says what CI would run for it. */
function draw() {
  execFileSync(process.execPath, ['scripts/parts.mjs'], { cwd: folder });
  commit(LIST, readFileSync(join(folder, LIST), 'utf8'));
  return drawn();
}

before(() => {
  git('init', '-q');
  cpSync(join(root, 'scripts/parts.mjs'), join(folder, 'scripts/parts.mjs'), { recursive: true });
  git('add', '.');
  commit(LIST, '{ "draw": 0, "drawn": {}, "whole": {} }');
  // Nothing was ever drawn: everything with code of its own is.
  const first = draw();
  assert.deepEqual(first.campaigns, CAMPAIGNS);
  assert.deepEqual(
    LONG.filter((name) => first.leftOut.includes(name)),
    [],
  );
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('what a commit did not draw, the next ones draw', () => {
  const draws = Array.from({ length: 12 }, (_, i) => {
    commit('docs/x.md', String(i));
    return draw();
  });
  for (const { campaigns, said } of draws) {
    assert.equal(campaigns.length, 2);
    assert.equal(said, '');
  }
  // An odd number of them: one is drawn twice meanwhile.
  for (const half of [draws.slice(0, 6), draws.slice(6)])
    assert.deepEqual([...new Set(half.flatMap(({ campaigns }) => campaigns))].sort(), [...CAMPAIGNS].sort());
  for (const [i, { whole, leftOut }] of draws.slice(1).entries()) {
    assert.notEqual(whole, draws[i]?.whole);
    assert.notEqual(leftOut[0], draws[i]?.leftOut[0]);
  }
  // One of three in each draw, in turns.
  for (const kind of [LONG, ['versions-1', 'versions-2', 'versions-3']]) {
    const each = draws.map(({ leftOut }) => kind.filter((name) => !leftOut.includes(name)));
    for (const i of [0, 3, 6, 9])
      assert.deepEqual(
        each
          .slice(i, i + 3)
          .flat()
          .sort(),
        [...kind].sort(),
      );
    assert.ok(each.every(({ length }) => length === 1));
  }
});

test('a part whose code changed is drawn', () => {
  commit('bench/faults/kill.ts', 'other');
  commit('workers/agents/acp.ts', 'other');
  const { campaigns, leftOut } = draw();
  assert.ok(campaigns.includes('kill') && campaigns.length <= 3, campaigns.join());
  assert.ok(!leftOut.includes('agents'));
  commit('hosts/openclaw/src/index.ts', 'other');
  assert.ok(!draw().leftOut.includes('openclaw'));
  commit('scripts/release/deb.mjs', 'other');
  assert.ok(!draw().leftOut.includes('installs'));
});

test('a commit that brings no draw runs as many parts, which are not noted', () => {
  const before = readFileSync(join(folder, LIST), 'utf8');
  commit('docs/x.md', 'no draw');
  const { whole, campaigns, leftOut, said } = drawn();
  assert.match(said, /npm run draw/);
  assert.ok(whole === '20' || whole === '24');
  assert.equal(new Set(campaigns).size, 2);
  assert.ok(leftOut.includes('second-1') !== leftOut.includes('second-2'));
  assert.equal(readFileSync(join(folder, LIST), 'utf8'), before);
});
