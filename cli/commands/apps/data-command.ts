/** `svc read`, `svc write`, `svc live`, `svc sql`, `svc changes`, `svc logs`: an app's data and what it reports. */
import { addressOf, type FollowOptions, requestOf } from '../../../protocol/http/client.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Received, Sent } from '../../../protocol/routes/api.ts';
import { keywordWithoutWhere, mayWrite } from '../../../protocol/rules/sql.ts';
import { plural } from '../../../protocol/text/units.ts';
import { askFirst, type CommandContext, jsonArgument } from '../../command.ts';
import { EXIT, sqlOutcomeUnknown, UnreachableError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { checkPages, listed } from '../../gateway/received.ts';
import { readAll } from '../../resource.ts';
import { APPS } from '../../resources.ts';
import { drawLogEntry, type LogEntry } from '../../terminal/log-entry.ts';
import type { Style } from '../../terminal/style.ts';
import { valueTable } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { formatMoment } from '../../terminal/units.ts';

const DEFAULT_LINES = 50;
const MAX_LINES = 10_000;

export async function read(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const body = { app: args.at(0), query: args.at(1), input: await jsonArgument(context, 2, {}) };
  const { data } = await connect().call('POST /svc/_tool/svc_read', { body });
  printResult(terminal, data);
}

/** Follows the result of a query. With `--json`, one event a line: `{ data, seq }`, or the error envelope. */
export async function live(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const [app, query] = [args.at(0), args.at(1)];
  const input = JSON.stringify(await jsonArgument(context, 2, {}));
  const path = addressOf('GET /svc/:id/_live', { params: { id: app }, query: { query, input } });
  for await (const { event, data } of connect().follow(path, notesOfStream(terminal, `${query} of ${app}`))) {
    const update = JSON.parse(data) as { data: unknown; error?: { code: string; message: string } };
    if (terminal.json) terminal.event(update);
    else if (event === 'data') printResult(terminal, update.data);
    else terminal.note(terminal.noteStyle('yellow', `${update.error?.code}: ${update.error?.message}`));
  }
}

function printResult(terminal: Terminal, data: unknown): void {
  if (!terminal.interactive || !isRecords(data)) {
    terminal.value(data);
    return;
  }
  const names = [...new Set(data.flatMap((row) => Object.keys(row)))];
  const rows = data.map((row) => names.map((name) => row[name]));
  terminal.table(...valueTable(names, rows));
}

/** Rows of scalars are easier to read as a table than as JSON. */
function isRecords(value: unknown): value is Record<string, unknown>[] {
  return Array.isArray(value) && value.length > 0 && value.every(isRow);
}

function isRow(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const members = Object.values(value);
  return members.length > 0 && members.every((member) => member === null || typeof member !== 'object');
}

/** An action that answers with a status of 400 or above has failed; its answer says why. */
export async function write(context: CommandContext): Promise<number> {
  const { args, terminal, connect } = context;
  const [app, action] = [args.at(0), args.at(1)];
  const body = { app, action, input: await jsonArgument(context, 2, {}) };
  const key = args.text('key');
  const headers = key === undefined ? {} : { 'idempotency-key': key };
  const answer = await connect().ask(requestOf('POST /svc/_tool/svc_write', { body }, { headers }));
  const { data } = answer.body as Received<'POST /svc/_tool/svc_write'>;
  terminal.answer(data, () => {
    if (answer.headers.get('idempotency-replayed') === 'true')
      terminal.note('This key was used before: its recorded result follows.');
    if (data.status !== 200) terminal.note(`status ${data.status}`);
    terminal.value(data.body);
    if (data.status >= 400) terminal.hint(`The app refused this. What it takes: svc describe ${app} ${action}`);
  });
  return data.status < 400 ? EXIT.ok : EXIT.failed;
}

export async function sql(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.at(0);
  const params = { id: app };
  // The gateway judges what the user typed.
  const values = (await jsonArgument(context, 2)) as Sent<'POST /svc/_apps/:id/sql'>['body']['params'];
  const statement = { sql: args.at(1), params: values };
  const sweeps = keywordWithoutWhere(statement.sql);
  if (sweeps !== null) {
    const what = sweeps === 'DROP' ? 'DROP deletes' : `${sweeps} without WHERE affects every row`;
    const question = `${what}. Run it on the data of "${app}"?`;
    await askFirst(context, question);
    const { copy } = await connect().call('POST /svc/_apps/:id/copies', { params });
    if (copy !== null)
      terminal.hint(`Copy of the data before this: apps/${app}/backups/${copy} in the data directory.`);
  }
  const answer = await connect()
    .call('POST /svc/_apps/:id/sql', { params, body: statement })
    .catch((error: unknown) => {
      throw error instanceof UnreachableError && error.sent && mayWrite(statement.sql) ? sqlOutcomeUnknown() : error;
    });
  terminal.answer(answer, () => {
    if (!('rows' in answer)) {
      terminal.done(`${plural(answer.changes, 'row')} changed`);
      return;
    }
    const { columns, rows, truncated } = answer;
    if (columns.length > 0) terminal.table(...valueTable(columns, rows));
    terminal.hint(plural(rows.length, 'row') + (truncated ? ', and there are more' : ''));
  });
}

/** Follows the change stream of an app. With `--json`, one event a line. */
export async function changes({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  const { style } = terminal;
  const path = addressOf('GET /svc/:id/_changes', { params: { id: app }, query: { tables: args.text('tables') } });
  for await (const { event, data } of connect().follow(path, notesOfStream(terminal, `the changes of ${app}`))) {
    if (terminal.json) terminal.event({ event, ...JSON.parse(data || '{}') });
    else if (event === 'reset')
      terminal.line(style('yellow', 'reset  some changes were missed: read everything again'));
    else if (event === 'reload') terminal.line(style('cyan', 'reload  another version is live'));
    else if (event === 'change') terminal.line(drawChange(JSON.parse(data), style));
  }
}

type ChangeEvent = { table: string; action: string; source: string; ts: number; seq: number };

function drawChange({ table, action, source, ts, seq }: ChangeEvent, style: Style): string {
  const what = `by ${action}${source === 'handler' ? '' : ` (${source})`}`;
  return `${style('dim', formatMoment(ts))}  ${style('bold', table)}  ${what}  ${style('dim', `#${seq}`)}`;
}

/** Tells when a stream is open, lost, and open again. */
export function notesOfStream(terminal: Terminal, what: string): FollowOptions {
  return {
    onOpen: (again) => {
      if (again) terminal.hint('Connected again.');
      else if (terminal.interactive) terminal.hint(`Following ${what}. Stop with Ctrl-C.`);
    },
    onLost: () => terminal.note(terminal.noteStyle('yellow', 'The connection was lost; trying again …')),
  };
}

/** Log entries, oldest first, and with `-f` new ones. With `--json` and `-f`, one entry a line. */
export async function logs({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const limit = args.number('lines', 1, MAX_LINES) ?? DEFAULT_LINES;
  const readLast = () => (app === undefined ? readLastOfAll(client, limit) : readLastOf(client, app, limit));
  const print = (entry: LogEntry): void => {
    if (terminal.json) terminal.event(entry);
    else terminal.lines(drawLogEntry(entry, terminal.style, app === undefined));
  };
  if (!args.has('follow')) {
    const entries = await readLast();
    terminal.answer(entries, () => {
      if (entries.length === 0) terminal.note('Nothing has been logged yet.');
      entries.forEach(print);
    });
    return;
  }
  // The stream opens before old entries are read, so that none is missed; an entry that comes twice is printed once.
  const printed = new Set<string>();
  const onOpen = async (again: boolean): Promise<void> => {
    if (again) return;
    for (const entry of await readLast()) {
      printed.add(JSON.stringify(entry));
      print(entry);
    }
  };
  const path = addressOf('GET /svc/_logs', { query: { app, follow: '1' } });
  const stream = client.follow(path, { ...notesOfStream(terminal, ''), onOpen });
  for await (const { event, data } of stream) {
    if (event !== 'log') continue;
    const entry = JSON.parse(data) as LogEntry;
    if (!printed.delete(JSON.stringify(entry))) print(entry);
  }
}

async function readLastOf(client: Client, app: string, lines: number): Promise<LogEntry[]> {
  let entries: LogEntry[] = [];
  let before: string | null = null;
  let pages = 0;
  do {
    checkPages(++pages);
    const limit = Math.min(lines - entries.length, LIMITS.listRowsMax);
    const query = { app, limit, before: before ?? undefined };
    const { headers, body } = await client.ask(requestOf('GET /svc/_logs', { query }));
    entries = [...(listed(body) as LogEntry[]), ...entries];
    before = headers.get('log-cursor');
  } while (before !== null && entries.length < lines);
  return entries;
}

/** Every app has its own log; the newest entries of all are among the newest of each. */
async function readLastOfAll(client: Client, limit: number): Promise<LogEntry[]> {
  let entries: LogEntry[] = [];
  for (const { id } of await readAll(client, APPS))
    entries = [...entries, ...(await readLastOf(client, id, limit))].sort((a, b) => a.ts - b.ts).slice(-limit);
  return entries;
}
