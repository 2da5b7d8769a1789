/** `svc logs`: log entries, oldest first, and with `-f` those that come. With `--json` and `-f`, one entry a line. */

import type { AppRecord } from '../../protocol/answers.ts';
import type { CommandContext } from '../command.ts';
import type { LogEntry } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { withQuery } from '../gateway/paths.ts';
import { drawLogEntry } from '../terminal/log-entry.ts';
import type { Terminal } from '../terminal/terminal.ts';

const DEFAULT_LINES = 50;
const MAX_LINES = 500;

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const limit = args.number('lines', 1, MAX_LINES) ?? DEFAULT_LINES;
  const readLast = () => (app === undefined ? readLastOfAll(client, limit) : readLastOf(client, app, limit));
  const print = (entry: LogEntry) => printEntry(entry, terminal, app === undefined);
  if (args.has('follow')) {
    await follow(client, app, terminal, readLast, print);
    return;
  }
  const entries = await readLast();
  terminal.answer(entries, () => {
    if (entries.length === 0) terminal.note('Nothing has been logged yet.');
    entries.forEach(print);
  });
}

function readLastOf(client: Client, app: string, limit: number): Promise<LogEntry[]> {
  return client.get<LogEntry[]>(withQuery('/svc/_logs', { app, limit }));
}

/** Every app has a log of its own; the newest entries of all are among the newest of each. */
async function readLastOfAll(client: Client, limit: number): Promise<LogEntry[]> {
  let entries: LogEntry[] = [];
  for (const { id } of await client.get<AppRecord[]>('/svc/_apps')) {
    entries = [...entries, ...(await readLastOf(client, id, limit))].sort((a, b) => a.ts - b.ts).slice(-limit);
  }
  return entries;
}

/** The stream stands before the past is read, so nothing falls between; what comes both ways is printed once. */
async function follow(
  client: Client,
  app: string | undefined,
  terminal: Terminal,
  readLast: () => Promise<LogEntry[]>,
  print: (entry: LogEntry) => void,
): Promise<void> {
  const printed = new Set<string>();
  const stream = client.follow(withQuery('/svc/_logs', { app, follow: 1 }), {
    onOpen: async (again) => {
      if (again) return;
      for (const entry of await readLast()) {
        printed.add(JSON.stringify(entry));
        print(entry);
      }
    },
    onLost: () => terminal.note(terminal.noteStyle('yellow', 'The connection was lost; trying again …')),
  });
  for await (const { event, data } of stream) {
    if (event !== 'log') continue;
    const entry = JSON.parse(data) as LogEntry;
    if (!printed.delete(JSON.stringify(entry))) print(entry);
  }
}

function printEntry(entry: LogEntry, terminal: Terminal, withApp: boolean): void {
  if (terminal.json) terminal.line(JSON.stringify(entry));
  else terminal.line(drawLogEntry(entry, terminal.style, withApp));
}
