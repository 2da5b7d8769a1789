// Chooses test files: a part of all that is worth running by itself, and what is left out.

/** Of each area one, for work in between; with all that start no gateway, at most 90 s on two cores. */
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

/** What a version of Node can change: its streams, its HTTP, its permission model, its modules, its threads and processes. */
const VERSIONS = [
  'test/app-tests.e2e',
  'test/authoring.e2e',
  'test/backup.e2e',
  'test/blobs.e2e',
  'test/browser/pages',
  'test/cli.e2e',
  'test/egress.e2e',
  'test/embedding.e2e',
  'test/http.e2e',
  'test/live.e2e',
  'test/mcp-servers.e2e',
  'test/packages.e2e',
  'test/runaway.e2e',
  'test/supervision.e2e',
  'test/typescript.e2e',
  'test/webhooks.e2e',
];

/** Parts of the suite by the option that runs them, with every file that starts no gateway. */
export const PARTS = { '--quick': ONE_OF_EACH_AREA, '--versions': VERSIONS };

/** Tests with programs of agents' vendors. CI leaves them out when it has not drawn them (scripts/parts.mjs). */
const WITH_AGENTS = 'test/agents-real/';

/** What `part`, an option of PARTS, runs of the files; all without it. `isPure` says of a file that it starts no gateway. */
export function select(files, { part, leftOut, isPure }) {
  const isNamed = (file) => PARTS[part].some((name) => file.startsWith(`${name}.`));
  return files
    .filter((file) => part === undefined || isPure(file) || isNamed(file))
    .filter((file) => !(leftOut.includes('agents') && file.startsWith(WITH_AGENTS)));
}
