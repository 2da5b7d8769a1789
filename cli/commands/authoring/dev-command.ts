/** `svc dev`: keeps a draft equal to a folder, and shows what it logs and what is wrong with it. */
import { resolve } from 'node:path';
import { joinSignals } from '../../../protocol/signals.ts';
import { formatCount, plural } from '../../../protocol/text/units.ts';
import { type CommandContext, interruptible } from '../../command.ts';
import { drawLeftOut, readAppId, scanAppFolder, warnOfFlatAutomations } from '../../dev/app-folder.ts';
import { type DraftEvent, DraftFollower } from '../../dev/draft-follower.ts';
import { FolderEdits } from '../../dev/folder-edits.ts';
import type { SyncResult } from '../../dev/folder-sync.ts';
import { FollowedTests, type TestsEvent } from '../../dev/followed-tests.ts';
import { UNSEEN_MS, workspaceOf } from '../../dev/stage-folder.ts';
import { EXIT } from '../../failure.ts';
import { drawLogEntry } from '../../terminal/log-entry.ts';
import { shortPath } from '../../terminal/paths.ts';
import type { Style } from '../../terminal/style.ts';
import type { Progress, Terminal } from '../../terminal/terminal.ts';
import { formatClock, formatDuration } from '../../terminal/units.ts';
import { placeOf } from '../apps/versions-command.ts';

const RETRY_MS = 1000;
/** Up to this many names are all listed; of more, only the first two. */
const LISTED = 8;
const LISTED_OF_MANY = 2;
/** Lines of a stack that are Node's own. */
const OF_NODE = /^\s+at .*\bnode:/;

type DevEvent = DraftEvent | TestsEvent;

/** With `--once`, the exit code is 1 when the draft is broken or could not be published. */
export async function dev(context: CommandContext): Promise<number> {
  const { args, terminal, connect, cwd } = context;
  const folder = resolve(cwd, args.at(0));
  const app = readAppId(folder);
  const workspace = workspaceOf(app, args.text('workspace'));
  const { files, leftOut } = scanAppFolder(folder);
  const visible = leftOut.filter(({ reason }) => reason !== 'hidden');
  const once = args.has('once');
  const events: DevEvent[] = [];
  // With --once and --json it prints one document, like every command.
  const tell = (event: DevEvent): void => void (once && terminal.json ? events.push(event) : show(terminal, event));
  const startSync = (): Progress => terminal.progress(`Sending ${app}`, UNSEEN_MS);
  const draft = new DraftFollower({ connect, workspace, name: args.text('name'), app, folder, tell, startSync });
  const tests = args.has('test') ? new FollowedTests(folder, context.env, tell) : null;
  await draft.open();
  if (visible.length > 0) terminal.hint(drawLeftOut(visible));
  warnOfFlatAutomations(terminal, files);
  const edits = once ? null : new FolderEdits(folder);
  try {
    const { whole, passed } = await update(draft, tests);
    const isSound = whole && (!once || (await passed));
    const facts = { app, workspace, preview: await draft.preview() };
    if (terminal.json && once) terminal.document(summary(facts, whole, events));
    else if (terminal.json) terminal.event({ event: 'ready', ...facts, whole });
    else {
      const { style } = terminal;
      const state = whole ? style('green', '✓') : style('yellow', '!');
      terminal.line(`${state} ${style('bold', app)} follows ${shortPath(folder, context)}`);
      terminal.facts({
        preview: style('cyan', facts.preview),
        publish: `svc publish ${app} --workspace ${workspace}`,
      });
    }
    if (edits === null) return isSound ? EXIT.ok : EXIT.failed;
    terminal.hint('Edits show at once. Stop with Ctrl-C.');
    if (args.has('open')) await draft.openPreview(context.platform);
    await followUntilStopped(draft, edits, tests);
  } finally {
    edits?.close();
    await tests?.stop();
  }
  if (terminal.json) terminal.event({ event: 'stopped', app, workspace });
  else {
    terminal.note();
    terminal.note(`The workspace ${workspace} is kept. Publish it: svc publish ${app} --workspace ${workspace}`);
  }
  return EXIT.ok;
}

/** Updates the draft. Runs the tests only if it works: otherwise they would report the same fault. */
async function update(
  draft: DraftFollower,
  tests: FollowedTests | null,
  isMore?: () => boolean,
): Promise<{ whole: boolean; passed: Promise<boolean> }> {
  const whole = await draft.update(isMore);
  return { whole, passed: whole && tests !== null ? tests.again() : Promise.resolve(true) };
}

async function followUntilStopped(
  draft: DraftFollower,
  edits: FolderEdits,
  tests: FollowedTests | null,
): Promise<void> {
  await interruptible(async (interrupted) => {
    const failed = new AbortController();
    const { signal } = joinSignals([interrupted, failed.signal]);
    const wake = (): void => edits.wake();
    signal.addEventListener('abort', wake);
    const following = draft.follow(signal, wake);
    try {
      while (!interrupted.aborted) {
        await edits.next(draft.settled ? null : RETRY_MS);
        if (!interrupted.aborted) await update(draft, tests, () => edits.came);
      }
    } finally {
      failed.abort();
      await following;
    }
  });
}

function show(terminal: Terminal, event: DevEvent): void {
  if (terminal.json) terminal.event(forPrograms(event));
  else if (event.event === 'log') terminal.lines(drawLogEntry(event.entry, terminal.style, false));
  else {
    const [first = '', ...more] = draw(terminal, event);
    terminal.lines([`${terminal.style('dim', formatClock(Date.now()))}  ${first}`, ...more]);
  }
}

/** What `--once --json` prints. */
function summary(facts: object, whole: boolean, events: DevEvent[]): object {
  const { written = [], deleted = [] } = events.find((event) => event.event === 'synced') ?? {};
  const fault = events.find((event) => event.event !== 'tests' && 'error' in event);
  const tests = events.find((event) => event.event === 'tests');
  const warned = events.find((event) => event.event === 'warned');
  const found = { ...(fault && { error: fault.error }), ...(warned && { warnings: warned.warnings }) };
  return { ...facts, whole, written, deleted, ...found, ...(tests && { tests }) };
}

function forPrograms(event: DevEvent): object {
  if (event.event === 'log') return { event: 'log', ...event.entry };
  if (event.event === 'tests') return event;
  if ('error' in event) return { event: event.event, error: event.error };
  return event;
}

function draw({ style }: Terminal, event: Exclude<DevEvent, { event: 'log' }>): string[] {
  switch (event.event) {
    case 'synced':
      return [drawSync(event)];
    case 'broken':
      return [style('red', `✗ ${event.title}`), ...event.lines.map((line) => `  ${line}`)];
    case 'unfit':
      return [
        style('yellow', `! publishing would refuse it: ${event.title}`),
        ...event.lines.map((line) => `  ${line}`),
      ];
    case 'warned':
      return event.warnings.map((one) => style('yellow', `! ${placeOf(one)} `) + one.message);
    case 'mended':
      return [style('green', '✓ the draft works again')];
    case 'lost':
      return [style('yellow', '! the gateway does not answer; edits are sent when it is back')];
    case 'back':
      return [`${style('green', '✓ the gateway is back')}  ${style('cyan', event.preview)}`];
    case 'tests':
      return drawTests(event, style);
  }
}

function drawTests({ tests, failures, ms, error }: TestsEvent, style: Style): string[] {
  if (error !== undefined) return [style('red', '✗ the tests cannot be run'), `  ${error.code}: ${error.message}`];
  if (failures.length === 0)
    return [style('green', `✓ ${plural(tests, 'test')} passed`) + style('dim', `  ${formatDuration(ms)}`)];
  return [
    style('red', `✗ ${failures.length} of ${plural(tests, 'test')} failed`),
    ...failures.flatMap((failure) => [
      `  ${failure.name}${style('dim', `  ${failure.file ?? ''}:${failure.line ?? ''}`)}`,
      ...(failure.error ?? '')
        .split('\n')
        .filter((line) => !OF_NODE.test(line))
        .map((line) => `    ${line}`),
    ]),
  ];
}

function drawSync({ written, deleted, taken, overwritten, gone }: SyncResult): string {
  return [
    ...drawPaths(
      written.filter((path) => !overwritten.includes(path)),
      '',
    ),
    ...drawPaths(overwritten, ' (over a change made in the workspace)'),
    ...drawPaths(deleted, ' (deleted)'),
    ...drawPaths(taken, ' (taken from the workspace)'),
    ...drawPaths(gone, ' (deleted in the workspace, still in the folder; an edit sends it again)'),
  ].join(', ');
}

/** Of many paths the first, and how many more there are. */
function drawPaths(paths: string[], note: string): string[] {
  const shown = paths.length <= LISTED ? paths : paths.slice(0, LISTED_OF_MANY);
  const names = shown.map((path) => `${path}${note}`);
  const rest = paths.length - shown.length;
  if (rest === 0) return names;
  const last = names.pop() ?? '';
  return [...names, `${last} and ${formatCount(rest)} more${note}`];
}
