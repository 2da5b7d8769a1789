/** `svc doctor`: checks the machine and the gateway on it, and says how to fix what it finds. No check throws. */
import { accessSync, constants, existsSync, lstatSync, statfsSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { DATA_FORMAT } from '../../../protocol/data-format.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import { DEFAULTS, LIMITS } from '../../../protocol/limits.ts';
import { nodeFault, OLDEST_NODE, RECOMMENDED_NODE } from '../../../protocol/node-versions.ts';
import type { SystemStatus } from '../../../protocol/routes/operations/system-rows.ts';
import { formatBytes } from '../../../protocol/text/units.ts';
import { listWorkspaces, readWorkspace, touchedAt } from '../../../storage/authoring/workspace-records.ts';
import { checkFormat } from '../../../storage/data-format.ts';
import { closeToOthers, openToOthers } from '../../../storage/files/private-tree.ts';
import { Layout } from '../../../storage/layout.ts';
import { lockHolder } from '../../../storage/processes/data-lock.ts';
import { BindingError, bindingsHere, loadBinding } from '../../../storage/sqlite.ts';
import { loadUws, NoUws } from '../../../supervisor/edge/uws-binding.ts';
import type { CommandContext } from '../../command.ts';
import { EXIT, fileFault, reasonOf } from '../../failure.ts';
import { Client } from '../../gateway/client.ts';
import { daemonOf, profileFile, readJsonFile, type Surroundings } from '../../gateway/connection.ts';
import { whoListens } from '../../gateway/listener.ts';
import { readAll } from '../../resource.ts';
import { APPS, shownWorkspace, WORKSPACES } from '../../resources.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { formatAge, formatDuration } from '../../terminal/units.ts';
import { wrap } from '../../terminal/wrap.ts';
import { type Check, ok, problem, warning } from './check-command.ts';

const MARKS = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;
const MAX_PORT = 65_535;
/** Permission bits of all users but the owner. */
const OTHERS = 0o077;
/** Columns of mark and name. Narrower terminals than `NARROW` show the finding below them. */
const NAMES_WIDTH = 17;
const NARROW = 60;
/** States of a process that should run and does not. */
const DOWN = new Set(['backoff', 'failed']);
/** Where `svc serve` keeps code of the git store, unless the data directory's mark says otherwise. */
const CODE_STORE = 'code-store';
/** Stale workspaces that are named. */
const NAMED = 5;
const SEE_LOG = 'The gateway logged the details where it runs (standard error of svc serve).';

/** The exit code is 1 when something is broken. */
export async function doctor(context: CommandContext): Promise<number> {
  const { args, terminal, dataDirectory } = context;
  const named = args.number('port', 1, MAX_PORT);
  const daemon = daemonOf(dataDirectory, context);
  // Without `--port`, the port of the gateway that was found.
  const port = named ?? Number(daemon === null ? DEFAULTS.port : new URL(daemon.url).port || DEFAULTS.port);
  // First, so that the other checks do not report what `--mend` fixes.
  const privacy = checkPrivacy(dataDirectory, args.has('mend'), context);
  const checks: Check[] = [
    checkNode(process.versions.node),
    checkSqlite(),
    checkEdge(),
    ...checkDataDirectory(dataDirectory, context),
    ...(await checkDataFormat(dataDirectory)),
    ...privacy,
    checkDisk(dataDirectory, context),
    ...(await checkData(dataDirectory, context)),
    checkProfile(context),
    ...(await checkDaemon(dataDirectory, context)),
    ...(await checkWorkspaces(dataDirectory, context)),
    await checkPort(port, dataDirectory, context),
  ];
  const has = (wanted: Check['state']): boolean => checks.some(({ state }) => state === wanted);
  terminal.answer({ ok: !has('problem'), checks }, () => {
    for (const check of checks) drawCheck(check, terminal);
    terminal.line();
    if (has('problem')) terminal.line('Something needs to be fixed.');
    else terminal.line(has('warning') ? 'It works; see the warnings.' : 'No problems found.');
  });
  return has('problem') ? EXIT.failed : EXIT.ok;
}

/** On a narrow terminal the finding is below its name. */
function drawCheck({ state, name, finding, fix }: Check, terminal: Terminal): void {
  const { columns, style } = terminal;
  const [colour, mark] = MARKS[state];
  const isNarrow = columns < NARROW;
  const indent = ' '.repeat(isNarrow ? 2 : NAMES_WIDTH);
  const [first = '', ...rest] = wrap(finding, columns - indent.length);
  const title = `${style(colour, mark)} ${style('bold', isNarrow ? name : name.padEnd(14))}`;
  const below = isNarrow ? [first, ...rest] : rest;
  const advice = fix === undefined ? [] : wrap(`→ ${fix}`, columns - indent.length).map((line) => style('dim', line));
  terminal.lines([isNarrow ? title : `${title} ${first}`, ...[...below, ...advice].map((line) => indent + line)]);
}

export function checkNode(version: string): Check {
  const fault = nodeFault(version);
  if (fault !== null) return (fault.isTooOld ? problem : warning)('Node', fault.finding, fault.advice);
  return ok(
    'Node',
    Number.parseInt(version, 10) === OLDEST_NODE
      ? `Node ${version}, no longer maintained; ${RECOMMENDED_NODE} is recommended`
      : `Node ${version}`,
  );
}

export function checkSqlite(names = bindingsHere()): Check {
  try {
    const { name, Sqlite } = loadBinding(names);
    const db = new Sqlite(':memory:');
    const version = db.prepare('SELECT sqlite_version()').pluck().get() as string;
    db.close();
    return ok('SQLite', `${name} loads, SQLite ${version}`);
  } catch (error) {
    if (!(error instanceof BindingError)) throw error;
    return problem('SQLite', error.finding, error.nextStep);
  }
}

export function checkEdge(load = loadUws): Check {
  try {
    load();
    return ok('edge', 'uWebSockets.js loads');
  } catch (error) {
    if (!(error instanceof NoUws)) throw error;
    return warning('edge', `${error.message} node:http serves, which takes more CPU for each call.`, error.nextStep);
  }
}

/** The folder and its token: writable by us, closed to others. */
export function checkDataDirectory(dataDirectory: string, surroundings: Surroundings): Check[] {
  const name = 'data directory';
  const shown = shortPath(dataDirectory, surroundings);
  const another = 'Choose another: --data-dir';
  if (!existsSync(dataDirectory)) {
    const parent = existingParent(dataDirectory);
    if (!statSync(parent).isDirectory())
      return [problem(name, `${shown} cannot be made: ${parent} is a file, not a folder`, another)];
    if (lstatSync(dataDirectory, { throwIfNoEntry: false }) !== undefined)
      return [problem(name, `${shown} is a link to a folder that does not exist`, `Make that folder. Or: ${another}`)];
    if (whyNotWritable(parent) === null) return [ok(name, `the first svc serve makes ${shown}`)];
    return [problem(name, `${shown} cannot be made: ${parent} is not writable`, another)];
  }
  if (!statSync(dataDirectory).isDirectory()) return [problem(name, `${shown} is a file, not a folder`, another)];
  const refusal = whyNotWritable(dataDirectory);
  if (refusal === 'EROFS')
    return [
      problem(
        name,
        `${shown} is on a disk that is mounted read-only`,
        'Mount it for writing, or choose another: --data-dir',
      ),
    ];
  if (refusal !== null) {
    const fix = `Run the command as the user of the gateway, or give the folder to yours: chown -R $USER ${shellPath(shown)}`;
    return [problem(name, `${shown} is not writable`, fix)];
  }
  const { token } = new Layout(dataDirectory);
  const folder = closedToOthers(name, dataDirectory, `${shown} is writable`, `chmod 700 ${shown}`);
  if (!existsSync(token)) return [folder];
  return [folder, closedToOthers('token', token, 'token.bin is there', `chmod 600 ${shown}/token.bin`)];
}

/** What is stored in it. Without SQLite there is another problem. */
async function checkData(dataDirectory: string, context: CommandContext): Promise<Check[]> {
  const { args, terminal } = context;
  const deep = args.has('deep');
  if (checkSqlite().state !== 'ok') return [];
  // What a newer release wrote is not opened; another check reports it.
  const isOurs = await checkFormat(new Layout(dataDirectory)).then(
    () => true,
    () => false,
  );
  if (!isOurs) return [];
  const daemon = daemonOf(dataDirectory, context);
  const apps = daemon === null ? [] : await readAll(new Client(daemon), APPS, [], LIMITS.helloMs).catch(() => []);
  const noticed = apps.filter(({ damage }) => damage !== undefined);
  if (deep && terminal.interactive) terminal.hint('Reading every file …');
  return (await import('./stored-data.ts')).checkStored(dataDirectory, deep, noticed);
}

/** Which release ran on it last, and whether this one can. */
async function checkDataFormat(dataDirectory: string): Promise<Check[]> {
  const name = 'data format';
  try {
    const found = await checkFormat(new Layout(dataDirectory));
    if (found === null) return [];
    const older = found.format < DATA_FORMAT ? `; the next start moves it to ${DATA_FORMAT}` : '';
    return [ok(name, `format ${found.format}${older}`)];
  } catch (error) {
    // Another check reports a directory that cannot be opened.
    if (fileFault(error) !== null) return [];
    const fix = 'Run the release that wrote it, or restore a backup: docs/operations.md#upgrade-and-downgrade';
    return [problem(name, firstLine(error), fix)];
  }
}

/** The files and folders in it, which older versions and other programs may have left open. `mend` closes them. */
export function checkPrivacy(dataDirectory: string, mend: boolean, surroundings: Surroundings): Check[] {
  const name = 'data files';
  const { token, format } = new Layout(dataDirectory);
  // Another folder, named by mistake, keeps its modes.
  if (!existsSync(token) && !existsSync(format)) return [];
  const open = openToOthers(dataDirectory);
  const first = open[0];
  if (first === undefined) return [ok(name, 'closed to other users')];
  const which = `${shortPath(first, surroundings)}${open.length > 1 ? ` and ${open.length - 1} more` : ''}`;
  if (!mend) return [warning(name, `other users can open ${which}`, 'Run: svc doctor --mend')];
  try {
    for (const path of open) closeToOthers(path);
  } catch (error) {
    const fix = `Run as the owner of the files: chmod -R go-rwx ${shortPath(dataDirectory, surroundings)}`;
    return [problem(name, `cannot be closed to other users: ${firstLine(error)}`, fix)];
  }
  return [ok(name, `closed to other users now: ${which}`)];
}

function closedToOthers(name: string, path: string, finding: string, command: string): Check {
  if ((statSync(path).mode & OTHERS) === 0) return ok(name, finding);
  return warning(name, `${finding}, but other users can open it`, `Run: ${command}`);
}

export function checkDisk(
  dataDirectory: string,
  surroundings: Surroundings,
  disk: { bavail: number; bsize: number } = statfsSync(existingParent(dataDirectory)),
): Check {
  const free = disk.bavail * disk.bsize;
  const finding = `${formatBytes(free)} free`;
  if (free >= LIMITS.lowDiskBytes) return ok('disk', finding);
  const fix = `Free some space: "svc trash empty" deletes the removed apps in ${shortPath(dataDirectory, surroundings)}/trash.`;
  if (free < LIMITS.fullDiskBytes) return problem('disk', `full: ${finding}; writes are refused`, fix);
  return warning('disk', `only ${finding}`, fix);
}

export function checkProfile(surroundings: Surroundings): Check {
  const name = 'profile';
  const file = profileFile(surroundings);
  const shown = shortPath(file, surroundings);
  if (!existsSync(file)) return ok(name, 'none; commands talk to the local gateway');
  try {
    const profile = readJsonFile(file) as { url?: unknown; token?: unknown } | null;
    if (typeof profile?.url !== 'string') return problem(name, `${shown} has no "url"`, 'Add it, or remove the file.');
    const finding = `${shown} points to ${profile.url}`;
    if (profile.token === undefined) return ok(name, finding);
    return closedToOthers(name, file, finding, `chmod 600 ${shown}`);
  } catch {
    return problem(name, `${shown} is not valid JSON`, 'Correct it, or remove it.');
  }
}

/** Whether the gateway of this directory answers and accepts our token; also its MCP servers that failed. */
export async function checkDaemon(dataDirectory: string, surroundings: Surroundings): Promise<Check[]> {
  const name = 'gateway';
  const shown = shortPath(dataDirectory, surroundings);
  const daemon = daemonOf(dataDirectory, surroundings);
  if (daemon === null) return [withoutAddress(dataDirectory, shown)];
  const { url, pid } = daemon;
  let status: SystemStatus;
  try {
    status = await new Client(daemon).call('GET /svc/_system', {}, { timeoutMs: LIMITS.helloMs });
  } catch (error) {
    if (!(error instanceof GatewayError)) {
      const fix = `Start it again: svc serve --data-dir ${shellPath(shown)}`;
      return [warning(name, `${url} (pid ${pid}) does not answer; it has probably crashed`, fix)];
    }
    if (error.status === 401)
      return [problem(name, `${url} does not accept the token of ${shown}`, 'Run: svc token rotate')];
    return [problem(name, `${url} answers ${error.code}: ${error.message}`, SEE_LOG)];
  }
  const down = status.processes.find(({ state, lastExit }) => lastExit !== null && DOWN.has(state));
  const up = `${status.version} answers at ${url}, up ${formatDuration(status.uptimeMs)}, edge ${status.edge}, Node ${status.node.replace(/^v/, '')}`;
  return [
    down === undefined
      ? ok(name, up)
      : problem(name, `${down.name} of ${url} does not stay up: ${down.lastExit}`, SEE_LOG),
    // Warnings: only automations that call their tools are affected.
    ...status.toolServers
      .filter(({ state }) => state === 'failed')
      .map((server) =>
        warning(
          'MCP server',
          `${server.name} failed: ${server.lastError ?? 'it did not say why'}`,
          `Look at mcpServers.${server.name} in the configuration. It is tried again when an automation calls it.`,
        ),
      ),
  ];
}

/** A gateway inside another program holds the lock, but has no address. */
function withoutAddress(dataDirectory: string, shown: string): Check {
  const name = 'gateway';
  try {
    const pid = lockHolder(new Layout(dataDirectory).lock);
    if (pid === null) return ok(name, `none is running on ${shown}`);
    return ok(name, `runs on ${shown} inside another program (pid ${pid}), or is starting`);
  } catch (error) {
    const fix = 'Run as the user of the gateway, or name another directory: --data-dir';
    return problem(name, `it is unknown whether one runs on ${shown}: ${reasonOf(error as Error)}`, fix);
  }
}

type FoundWorkspace = { sessionId: string; name?: string; touchedAt: number; damaged?: string };

/** Workspaces that are damaged, or were not used for long; none without a git store or an answer. */
export async function checkWorkspaces(
  dataDirectory: string,
  surroundings: Surroundings,
  now = Date.now(),
): Promise<Check[]> {
  const name = 'workspaces';
  const workspaces = await findWorkspaces(dataDirectory, surroundings).catch(() => null);
  if (workspaces === null) return [];
  const damaged = workspaces.filter((workspace) => workspace.damaged !== undefined).map(({ sessionId }) => sessionId);
  const stale = workspaces.filter((workspace) => now - workspace.touchedAt > LIMITS.workspaceStaleMs);
  stale.sort((a, b) => a.touchedAt - b.touchedAt);
  const named = stale
    .slice(0, NAMED)
    .map((workspace) => `${shownWorkspace(workspace)} (${formatAge(workspace.touchedAt, now)})`);
  const more = stale.length > NAMED ? ` and ${stale.length - NAMED} more` : '';
  const open = `${workspaces.length} open`;
  const days = LIMITS.workspaceStaleMs / 86_400_000;
  const checks: Check[] = [];
  if (damaged.length > 0)
    checks.push(
      problem(
        name,
        `damaged, their session.json cannot be read: ${damaged.join(', ')}`,
        'Copy what you need from worktrees/sessions/<id>/apps of the code store, then close them: svc workspaces rm <id>',
      ),
    );
  checks.push(
    stale.length === 0
      ? ok(name, open)
      : warning(
          name,
          `${open}, untouched for ${days} days: ${named.join(', ')}${more}`,
          'Publish what they hold, or close them: svc diff --workspace <id>, svc workspaces rm <id>',
        ),
  );
  return checks;
}

/** As the running gateway has them, else from the data directory; null without a git store. */
async function findWorkspaces(dataDirectory: string, surroundings: Surroundings): Promise<FoundWorkspace[] | null> {
  const daemon = daemonOf(dataDirectory, surroundings);
  if (daemon !== null) {
    try {
      return await readAll(new Client(daemon), WORKSPACES, [], LIMITS.helloMs);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'NO_GIT_STORE') throw error;
    }
  }
  const mark = readJsonFile(new Layout(dataDirectory).storeMark) as { appsStoreRoot?: unknown } | null;
  const root = typeof mark?.appsStoreRoot === 'string' ? mark.appsStoreRoot : CODE_STORE;
  const store = new Layout(dataDirectory, undefined, root).codeStore;
  if (store === null || !existsSync(store.workspacesDir)) return null;
  const ids = await listWorkspaces(store);
  return Promise.all(
    ids.map(async (sessionId) => {
      const workspace = store.workspace(sessionId);
      const found = { sessionId, touchedAt: await touchedAt(workspace) };
      return readWorkspace(workspace).then(
        (record) => (record?.name === undefined ? found : { ...found, name: record.name }),
        (error: Error) => ({ ...found, damaged: error.message }),
      );
    }),
  );
}

export async function checkPort(port: number, dataDirectory: string, surroundings: Surroundings): Promise<Check> {
  const name = 'port';
  const code = await listenOnce(port);
  if (code === null) return ok(name, `${port} is free`);
  const daemon = daemonOf(dataDirectory, surroundings);
  if (daemon !== null && Number(new URL(daemon.url).port) === port) return ok(name, `${port} is the gateway's`);
  if (code !== 'EADDRINUSE')
    return warning(name, `${port} is not available (${code})`, 'Use any free port: svc serve --port 0');
  const { what, steps } = await whoListens(DEFAULTS.host, port, surroundings);
  return warning(name, `${port} is used by ${what.replace(/^Another/, 'another')}`, steps.join('; '));
}

/** Null when the port is free, else the error's code. */
function listenOnce(port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'));
    server.listen(port, DEFAULTS.host, () => server.close(() => resolve(null)));
  });
}

function existingParent(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existingParent(dirname(path));
}

/** The error code of the system; null if the path can be written. */
function whyNotWritable(path: string): string | null {
  try {
    accessSync(path, constants.W_OK);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown';
  }
}

function firstLine(error: unknown): string {
  return String((error as Error).message).split('\n')[0] as string;
}
