// Draws the parts of the tests that CI runs for a commit, so that each of them is run again soon: `npm run draw` notes the next draw in
// .ci/parts.json, which is committed last. Each part says here what it is and when it is due.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const LIST = '.ci/parts.json';

/**
 * What CI draws of each kind: `take` parts, those that were drawn longest ago, and every part that was not drawn in the last `every`
 * draws or whose `code` changed since.
 */
export const KINDS = [
  // The whole suite runs on this Node, on the other one what a version can change.
  { kind: 'node', take: 1, parts: ['20', '24'] },
  // Of the files that run on both edges and both stores, one half does; the other runs on the first of each.
  { kind: 'second', take: 1, parts: ['1', '2'] },
  {
    kind: 'campaign',
    take: 2,
    parts: ['kill', 'runs', 'turns', 'stop', 'power', 'disk', 'crash', 'runaway', 'smuggling', 'clients', 'cluster'],
    code: (name) => [`bench/faults/${name}`, `bench/faults/${name}.ts`],
  },
  {
    kind: 'agents',
    take: 0,
    every: 3,
    parts: ['real'],
    code: () => ['workers/agents', 'supervisor/agents', 'protocol/agents', 'test/agents-real', 'scripts/agents'],
  },
  {
    kind: 'hosts',
    take: 0,
    every: 3,
    parts: ['openclaw'],
    code: () => ['hosts/openclaw', 'test/hosts/openclaw.e2e.test.ts', 'testing/openclaw.ts', 'scripts/openclaw'],
  },
  // The Debian package and the single file, only when what makes them has changed.
  {
    kind: 'installs',
    take: 0,
    parts: ['packages'],
    code: () => ['scripts/release', 'deploy', 'bin', 'testing/installs.ts'],
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
export function due({ draw, drawn }, changed = hasChanged) {
  return KINDS.flatMap(({ kind, take, every, parts, code }) => {
    const last = (name) => drawn[`${kind} ${name}`] ?? { draw: 0, commit: null };
    const oldest = [...parts].sort((a, b) => last(a).draw - last(b).draw).slice(0, take);
    return parts
      .filter((name) => {
        const { draw: at, commit } = last(name);
        const late = every !== undefined && draw + 1 - at >= every;
        return (
          oldest.includes(name) || late || (code !== undefined && (commit === null || changed(commit, code(name))))
        );
      })
      .map((name) => `${kind} ${name}`);
  });
}

/** Another choice for each commit, where nobody noted a draw: as many parts, and none of them noted. */
export function byCommit(commit) {
  const number = Number.parseInt(commit.slice(0, 7), 16);
  return KINDS.flatMap(({ kind, take, every = Number.POSITIVE_INFINITY, parts }) => {
    const count = take > 0 ? take : Number(number % every === 0);
    return Array.from({ length: count }, (_, i) => `${kind} ${parts[(number * count + i) % parts.length]}`);
  });
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
  const second = KINDS.find(({ kind }) => kind === 'second').parts.filter((name) => !of('second').includes(name));
  const absent = ['agents', 'hosts'].filter((kind) => of(kind).length === 0);
  const leftOut = [...second.map((name) => `second-${name}`), ...absent];
  return [
    `whole=${of('node').at(-1)}`,
    `campaigns='${of('campaign').join(' ')}'`,
    `left_out='${leftOut.join(',')}'`,
    `installs='${of('installs').join(' ')}'`,
  ];
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
