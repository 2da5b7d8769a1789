/** `svc dev`: keeps a draft the same as a folder, and shows what it logs and what is wrong with it. */
import { resolve } from 'node:path';
import type { CommandContext } from '../command.ts';
import { drawLeftOut, readAppId, scanAppFolder, warnOfFlatAutomations } from '../dev/app-folder.ts';
import { type DraftEvent, DraftFollower } from '../dev/draft-follower.ts';
import { FolderEdits } from '../dev/folder-edits.ts';
import type { SyncResult } from '../dev/folder-sync.ts';
import { EXIT } from '../failure.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { drawLogEntry } from '../terminal/log-entry.ts';
import type { Progress } from '../terminal/progress.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatClock, formatCount } from '../terminal/units.ts';

const RETRY_MS = 1000;
/** How long a sync takes before it shows how far it is. */
const UNSEEN_MS = 300;
/** As many names are listed; of more, only the first. */
const LISTED = 8;
const LISTED_OF_MANY = 2;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** With `--once`, 1 when the draft is broken or unfit to be published. */
export async function run(context: CommandContext): Promise<number> {
  const { args, terminal, connect, cwd } = context;
  const folder = resolve(cwd, args.at(0));
  const app = readAppId(folder);
  const session = args.text('session') ?? `dev-${app}`.slice(0, 64);
  const { files, leftOut } = scanAppFolder(folder);
  const visible = leftOut.filter(({ reason }) => reason !== 'hidden');
  const once = args.has('once');
  const told: DraftEvent[] = [];
  // With both options it is one document, like every command's.
  const tell = (event: DraftEvent): void => void (once && terminal.json ? told.push(event) : show(terminal, event));
  const startSync = (): Progress => startSlowProgress(terminal, app);
  const draft = new DraftFollower({ connect, session, app, folder, tell, startSync });
  await draft.open();
  if (visible.length > 0) terminal.note(terminal.noteStyle('dim', drawLeftOut(visible)));
  warnOfFlatAutomations(terminal, files);
  const watched = once ? null : new Edits(folder);
  try {
    const whole = await draft.update();
    const facts = { app, session, preview: await draft.preview() };
    if (terminal.json && once) terminal.document(summary(facts, whole, told));
    else if (terminal.json) terminal.line(JSON.stringify({ event: 'ready', ...facts, whole }));
    else welcome(terminal, shortPath(folder, context), facts, whole);
    if (watched === null) return whole ? EXIT.ok : EXIT.failed;
    terminal.note(terminal.noteStyle('dim', 'Edits show at once. Stop with Ctrl-C.'));
    if (args.has('open')) await draft.openPreview(context.platform);
    await followUntilStopped(draft, watched);
  } finally {
    watched?.close();
  }
  if (terminal.json) terminal.line(JSON.stringify({ event: 'stopped', app, session }));
  else {
    terminal.note();
    terminal.note(`The session ${session} is kept. Publish it: svc publish ${app} --session ${session}`);
  }
  return EXIT.ok;
}

/** Until Ctrl-C and the like. */
async function followUntilStopped(draft: DraftFollower, edits: Edits): Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const stop = (): void => stopping.abort();
  for (const name of SIGNALS) process.once(name, stop);
  signal.addEventListener('abort', () => edits.come());
  const following = draft.follow(signal, () => edits.come());
  try {
    for (;;) {
      await edits.next(draft.settled ? null : RETRY_MS);
      if (signal.aborted) return;
      await draft.update(() => edits.came);
    }
  } finally {
    stopping.abort();
    await following;
    for (const name of SIGNALS) process.off(name, stop);
  }
}

/** Edits of a folder, waited for. Those that come while nobody waits are one. */
class Edits {
  readonly #watch: FolderEdits;
  #come = false;
  #waiting: (() => void) | null = null;

  constructor(folder: string) {
    this.#watch = new FolderEdits(folder, () => this.come());
  }

  /** Since they were waited for last. */
  get came(): boolean {
    return this.#come;
  }

  come(): void {
    this.#come = true;
    this.#waiting?.();
  }

  /** Resolves with the next one, or after `ms` without one. */
  async next(ms: number | null): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    if (!this.#come) {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
        if (ms !== null) timer = setTimeout(resolve, ms);
      });
    }
    clearTimeout(timer);
    this.#waiting = null;
    this.#come = false;
  }

  close(): void {
    this.#watch.close();
  }
}

function show(terminal: Terminal, event: DraftEvent): void {
  if (terminal.json) terminal.line(JSON.stringify(forPrograms(event)));
  else if (event.event === 'log') terminal.line(drawLogEntry(event.entry, terminal.style, false));
  else {
    const [first = '', ...more] = draw(terminal, event);
    terminal.lines([`${terminal.style('dim', formatClock(Date.now()))}  ${first}`, ...more]);
  }
}

/** What `--once --json` prints. */
function summary(facts: object, whole: boolean, told: DraftEvent[]): object {
  const { written = [], deleted = [] } = told.find((event) => event.event === 'synced') ?? {};
  const fault = told.find((event) => 'error' in event);
  return { ...facts, whole, written, deleted, ...(fault === undefined ? {} : { error: fault.error }) };
}

function forPrograms(event: DraftEvent): object {
  if (event.event === 'log') return { event: 'log', ...event.entry };
  if ('error' in event) return { event: event.event, error: event.error };
  return event;
}

function draw({ style }: Terminal, event: Exclude<DraftEvent, { event: 'log' }>): string[] {
  switch (event.event) {
    case 'synced':
      return [drawSync(event)];
    case 'broken':
      return [style('red', `✗ ${event.title}`), ...indented(event.lines)];
    case 'unfit':
      return [style('yellow', `! publishing would refuse it: ${event.title}`), ...indented(event.lines)];
    case 'mended':
      return [style('green', '✓ the draft is whole again')];
    case 'lost':
      return [style('yellow', '! the gateway does not answer; edits are sent once it is back')];
    case 'back':
      return [`${style('green', '✓ the gateway is back')}  ${style('cyan', event.preview)}`];
  }
}

function indented(lines: string[]): string[] {
  return lines.map((line) => `  ${line}`);
}

function drawSync({ written, deleted, taken, overwritten, gone }: SyncResult): string {
  const plainly = written.filter((path) => !overwritten.includes(path));
  return [
    ...drawPaths(plainly, ''),
    ...drawPaths(overwritten, ' (over a change made in the session)'),
    ...drawPaths(deleted, ' (deleted)'),
    ...drawPaths(taken, ' (taken from the session)'),
    ...drawPaths(gone, ' (deleted in the session, still in the folder; an edit sends it again)'),
  ].join(', ');
}

/** Of many only some, and how many more there are. */
function drawPaths(paths: string[], note: string): string[] {
  const shown = paths.length <= LISTED ? paths : paths.slice(0, LISTED_OF_MANY);
  const names = shown.map((path) => `${path}${note}`);
  const rest = paths.length - shown.length;
  if (rest === 0) return names;
  const last = names.pop() ?? '';
  return [...names, `${last} and ${formatCount(rest)} more${note}`];
}

/** Drawn only of what takes long enough to be looked at. */
function startSlowProgress(terminal: Terminal, app: string): Progress {
  const from = Date.now() + UNSEEN_MS;
  const progress = terminal.progress(`Sending ${app}`);
  return {
    update: (done, total) => {
      if (Date.now() >= from) progress.update(done, total);
    },
    end: progress.end,
  };
}

function welcome(
  terminal: Terminal,
  folder: string,
  { app, session, preview }: { app: string; session: string; preview: string },
  whole: boolean,
): void {
  const { style } = terminal;
  const state = whole ? style('green', '✓') : style('yellow', '!');
  terminal.line(`${state} ${style('bold', app)} follows ${folder}`);
  terminal.line(`  ${style('dim', 'preview'.padEnd(9))} ${style('cyan', preview)}`);
  terminal.line(`  ${style('dim', 'publish'.padEnd(9))} svc publish ${app} --session ${session}`);
}
