// Chooses test files: a part of all that is worth running by itself, and what is left out.

/** Of each area one, for work in between; with all that start no process, at most 90 s on two cores. */
const ONE_OF_EACH_AREA = [
  'test/automations.e2e',
  'test/blobs-handlers.e2e',
  'test/browser/pages',
  'test/drafts.e2e',
  'test/live-command.e2e',
  'test/mcp-conformance.e2e',
  'test/monitoring.e2e',
  'test/people-pages.e2e',
  'test/tokens.e2e',
  'test/versions-at-work.e2e',
];

/**
 * What a version of Node can change: its streams, its HTTP, its permission model, its modules, its threads and processes. In thirds that
 * take as long; CI leaves out those that it has not drawn (scripts/parts.mjs).
 */
const VERSIONS = [
  ['test/install.e2e', 'test/packages.e2e', 'test/live.e2e', 'test/authoring.e2e', 'test/egress.e2e', 'test/http.e2e'],
  [
    'test/app-tests.e2e',
    'test/runaway.e2e',
    'test/browser/pages',
    'test/cli.e2e',
    'test/embedding.e2e',
    'test/webhooks.e2e',
  ],
  [
    'test/supervision.e2e',
    'test/backup.e2e',
    'test/mcp-servers.e2e',
    'test/blobs.e2e',
    'test/embedding-examples.e2e',
    'test/typescript.e2e',
  ],
];

/** Parts of the suite by the option that runs them: these files, and all that start nothing of one kind. */
export const PARTS = {
  '--quick': { named: ONE_OF_EACH_AREA, without: 'startsProcesses' },
  '--versions': { named: VERSIONS.flat(), without: 'startsServers' },
};

/** Tests with programs of agents' vendors, and inside other hosts. CI leaves them out when it has not drawn them (scripts/parts.mjs). */
const DRAWN = { agents: 'test/agents-real/', openclaw: 'test/hosts/' };

/** What `part`, an option of PARTS, runs of the files; all without it. `about` tells what a file starts (build.mjs). */
export function select(files, { part, leftOut, about }) {
  const { named, without } = PARTS[part] ?? {};
  const absent = part === '--versions' ? VERSIONS.filter((_, i) => leftOut.includes(`versions-${i + 1}`)).flat() : [];
  const isNamed = (file) => named.some((name) => file.startsWith(`${name}.`) && !absent.includes(name));
  return files
    .filter((file) => part === undefined || !about(file)[without] || isNamed(file))
    .filter((file) => !leftOut.some((one) => file.startsWith(DRAWN[one])));
}
