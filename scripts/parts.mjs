// Draws the parts of the tests that CI runs for a commit, so that each of them is run again soon: `npm run draw` notes the next draw in
// .ci/parts.json, which is committed last. Each part says here what it is and when it is due.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const LIST = '.ci/parts.json';

/** What takes minutes, with the code whose change makes it due. */
const LONG = {
  agents: ['workers/agents', 'supervisor/agents', 'protocol/agents', 'test/agents-real', 'scripts/agents'],
  openclaw: ['hosts/openclaw', 'test/hosts/openclaw.e2e.test.ts', 'testing/openclaw.ts', 'scripts/openclaw'],
  installs: ['scripts/release', 'deploy', 'bin', 'testing/installs.ts'],
};

/** What CI draws of each kind: `take` parts, those that were drawn longest ago, and every part whose `code` changed since. */
export const KINDS = [
  // The whole suite runs on this Node, on the other one what a version can change.
  { kind: 'node', take: 1, parts: ['20', '24'] },
  // The third of the end-to-end files that a version can change which the other Node runs (scripts/tests/selection.mjs).
  { kind: 'versions', take: 1, parts: ['1', '2', '3'] },
  // Of the files that run on both edges and both stores, one half does; the other runs on the first of each.
  { kind: 'second', take: 1, parts: ['1', '2'] },
  {
    kind: 'campaign',
    take: 2,
    parts: ['kill', 'runs', 'turns', 'stop', 'power', 'disk', 'crash', 'runaway', 'smuggling', 'clients', 'cluster'],
    code: (name) => [`bench/faults/${name}`, `bench/faults/${name}.ts`],
  },
  // Of what takes minutes one, in turns: real agents and the documents' commands as programs, the gateway inside OpenClaw, and the
  // Debian package with the single file.
  {
    kind: 'long',
    take: 1,
    parts: Object.keys(LONG),
    code: (name) => LONG[name],
  },
];

const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();

/** Whether one of the paths differs between this commit and the tree. What is not known of the commit counts as a change. */
export function hasChanged(commit, paths) {
  try {
    git('diff', '--quiet', commit, '--', ...paths);
    return false;
  } catch {
    return true;
  }
}

export function readList() {
  return JSON.parse(readFileSync(join(root, LIST), 'utf8'));
}

export function writeList(list) {
  writeFileSync(join(root, LIST), `${JSON.stringify(list, null, 2)}\n`);
}

/** The parts that are due after the draws of `list`, as `kind name`. `changed` says whether code differs from a commit's. */
export function due({ drawn }, changed = hasChanged) {
  return KINDS.flatMap(({ kind, take, parts, code }) => {
    const last = (name) => drawn[`${kind} ${name}`] ?? { draw: 0, commit: null };
    const oldest = [...parts].sort((a, b) => last(a).draw - last(b).draw).slice(0, take);
    return parts
      .filter((name) => {
        const { commit } = last(name);
        return oldest.includes(name) || (code !== undefined && (commit === null || changed(commit, code(name))));
      })
      .map((name) => `${kind} ${name}`);
  });
}

/** Another choice for each commit, where nobody noted a draw: as many parts, and none of them noted. */
export function byCommit(commit) {
  const number = Number.parseInt(commit.slice(0, 7), 16);
  return KINDS.flatMap(({ kind, take, parts }) =>
    Array.from({ length: take }, (_, i) => `${kind} ${parts[(number * take + i) % parts.length]}`),
  );
}

/** The list with one draw more, of the parts that are due at this commit. */
export function withNextDraw(list, commit, date, changed = hasChanged) {
  const draw = list.draw + 1;
  const drawn = { ...list.drawn };
  for (const part of due(list, changed)) drawn[part] = { draw, commit, date };
  return { ...list, draw, drawn };
}

/** The parts that CI runs for this commit: those of its list's last draw, if the commit brings it. */
function drawnNow() {
  const head = git('rev-parse', 'HEAD');
  if (git('log', '-1', '--format=%H', '--', LIST) !== head) {
    console.error(
      `This commit brings no draw, so its name chooses the parts, and none is noted: npm run draw, and commit ${LIST} last.`,
    );
    return byCommit(head);
  }
  const { draw, drawn } = readList();
  return Object.keys(drawn).filter((part) => drawn[part].draw === draw);
}

/** As variables for .ci/run. */
function asVariables(parts) {
  const of = (wanted) =>
    parts.filter((part) => part.startsWith(`${wanted} `)).map((part) => part.slice(wanted.length + 1));
  const absent = (wanted) =>
    KINDS.find(({ kind }) => kind === wanted).parts.filter((name) => !of(wanted).includes(name));
  const leftOut = [
    ...['second', 'versions'].flatMap((kind) => absent(kind).map((name) => `${kind}-${name}`)),
    ...absent('long'),
  ];
  return [`whole=${of('node').at(-1)}`, `campaigns='${of('campaign').join(' ')}'`, `left_out='${leftOut.join(',')}'`];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [command] = process.argv.slice(2);
  if (command === 'drawn') console.log(asVariables(drawnNow()).join('\n'));
  else {
    const list = withNextDraw(readList(), git('rev-parse', 'HEAD'), new Date().toISOString().slice(0, 10));
    writeList(list);
    const parts = Object.keys(list.drawn).filter((part) => list.drawn[part].draw === list.draw);
    console.log(`Draw ${list.draw}: ${parts.join(', ')}. Commit ${LIST} last.`);
  }
}
