/** `svc runs`: the latest runs, newest first; with `-f` what happens, as it happens. With `--json` and `-f`, one event a line. */
import type { RunEvent, RunRecord } from '../../protocol/runs.ts';
import type { CommandContext } from '../command.ts';
import type { Client } from '../gateway/client.ts';
import { withQuery } from '../gateway/paths.ts';
import { drawRunEvent, drawRunState, outcome, runTime } from '../terminal/run-view.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatAge } from '../terminal/units.ts';

const DEFAULT_RUNS = 20;
const MAX_RUNS = 500;

type Filter = { ref: string | undefined; app: string | undefined };

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const filter: Filter = { ref: args.optionalAt(0), app: args.text('app') };
  if (args.has('follow')) return follow(client, terminal, filter);
  const limit = args.number('lines', 1, MAX_RUNS) ?? DEFAULT_RUNS;
  const runs = await client.get<RunRecord[]>(withQuery('/svc/_runs', { ...filter, state: args.text('state'), limit }));
  terminal.answer(runs, () => {
    if (runs.length === 0) terminal.note('No run is recorded. Fire one: svc run <app>/<automation>');
    else draw(terminal, runs);
  });
}

function draw(terminal: Terminal, runs: RunRecord[]): void {
  const now = Date.now();
  terminal.table(
    [
      { title: 'STATE' },
      { title: 'AUTOMATION' },
      { title: 'FIRED BY' },
      { title: 'WHEN' },
      { title: 'TOOK', align: 'right' },
      { title: 'RUN' },
      { title: 'OUTCOME' },
    ],
    runs.map((record) => [
      drawRunState(record.state),
      { text: record.ref, format: 'bold' },
      record.trigger.kind,
      { text: formatAge(record.startedAt ?? record.queuedAt, now), format: 'dim' },
      runTime(record, now),
      { text: record.runId, format: 'dim' },
      outcome(record),
    ]),
  );
}

async function follow(client: Client, terminal: Terminal, filter: Filter): Promise<void> {
  const { style, noteStyle } = terminal;
  const refs = new Map<string, string>();
  const events = client.follow(withQuery('/svc/_runs/_events', { ...filter }), {
    onOpen: (again) => {
      if (again) terminal.note(noteStyle('dim', 'Connected again.'));
      else if (terminal.interactive) terminal.note(noteStyle('dim', 'Following runs. Stop with Ctrl-C.'));
    },
    onLost: () => terminal.note(noteStyle('yellow', 'The connection was lost; trying again …')),
  });
  for await (const { data } of events) {
    const event = JSON.parse(data) as RunEvent;
    if (terminal.json) terminal.line(JSON.stringify(event));
    else {
      const text = drawRunEvent(event, refs, style);
      if (text !== null) terminal.line(text);
    }
  }
}
