/** `svc run`: fires an automation by hand; shows and cancels runs. */
import { parseRef } from '../../protocol/automation.ts';
import type { RunNode, RunRecord } from '../../protocol/runs.ts';
import type { CommandContext } from '../command.ts';
import { EXIT, GatewayError, UsageError } from '../failure.ts';
import type { DescribedAutomation } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { automationPath, runPath } from '../gateway/paths.ts';
import { readJsonInput } from '../input.ts';
import { drawNode, drawRunState, drawTrigger, outcome, runTime } from '../terminal/run-view.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatClock } from '../terminal/units.ts';

export async function run({ args, terminal, connect, cwd }: CommandContext): Promise<number> {
  const client = connect();
  const what = args.at(0);
  const second = args.optionalAt(1);
  if (what === 'show') return show(client, terminal, runId(what, second));
  if (what === 'cancel') return cancel(client, terminal, runId(what, second));
  if (parseRef(what) === null)
    throw new UsageError(`"${what}" is not an automation: svc run <app>/<automation>.`, {
      command: 'run',
      hint: 'List them: svc automations',
    });
  const body = second === undefined ? {} : { input: await readJsonInput(second, terminal.stdin, cwd) };
  const { runId: id } = await client.post<{ runId: string }>(automationPath(what, '/run'), body);
  if (!args.has('wait')) {
    terminal.answer({ runId: id }, () => {
      terminal.line(`${terminal.style('green', '▶')} ${terminal.style('bold', what)}  ${id}`);
      terminal.note(terminal.noteStyle('dim', `Look at it: svc run show ${id}`));
    });
    return EXIT.ok;
  }
  const record = await ended(client, what, id);
  if (record) return draw(terminal, record, []);
  terminal.answer({ runId: id, state: 'ok' }, () => {
    const { text, format } = drawRunState('ok');
    terminal.line(`${terminal.style(format, text)}  ${terminal.style('bold', what)}  ${id}`);
    terminal.note(terminal.noteStyle('dim', 'What it returned is not known: its history keeps only runs that failed.'));
  });
  return EXIT.ok;
}

function runId(verb: string, id: string | undefined): string {
  if (id !== undefined) return id;
  throw new UsageError(`Name the run: svc run ${verb} <run>.`, { command: 'run', hint: 'The latest: svc runs' });
}

/** The run as it ended. Null for one that went well before it could be followed, in a history that keeps only others. */
async function ended(client: Client, ref: string, id: string): Promise<RunRecord | null> {
  try {
    for await (const { event, data } of client.follow(runPath(id, '/events')))
      if (event === 'run.end') return (JSON.parse(data) as { run: RunRecord }).run;
  } catch (error) {
    if (!(error instanceof GatewayError) || error.body.code !== 'UNKNOWN_RUN') throw error;
    const { manifest } = await client.get<DescribedAutomation>(automationPath(ref));
    if (manifest.history.keep === 'errors') return null;
    throw error;
  }
  throw new GatewayError(500, { code: 'INTERNAL', message: 'The event stream ended before the run.' });
}

async function show(client: Client, terminal: Terminal, id: string): Promise<number> {
  const record = await client.get<RunRecord>(runPath(id));
  const nodes = await client.get<RunNode[]>(runPath(id, '/nodes'));
  draw(terminal, record, nodes);
  return EXIT.ok;
}

async function cancel(client: Client, terminal: Terminal, id: string): Promise<number> {
  draw(terminal, await client.post<RunRecord>(runPath(id, '/cancel')), []);
  return EXIT.ok;
}

/** The exit code tells whether the run went well. */
function draw(terminal: Terminal, record: RunRecord, nodes: RunNode[]): number {
  terminal.answer(nodes.length > 0 ? { ...record, nodes } : record, () => {
    const { style } = terminal;
    const { text, format } = drawRunState(record.state);
    terminal.line(`${style(format, text)}  ${style('bold', record.ref)}  ${style('dim', record.runId)}`);
    const facts: [name: string, value: string][] = [
      ['fired', drawTrigger(record)],
      [
        'started',
        record.startedAt === null ? '' : `${formatClock(record.startedAt)}, took ${runTime(record, Date.now())}`,
      ],
      ['outcome', outcome(record)],
      ['parent', record.parentRunId ?? ''],
    ];
    for (const [name, value] of facts) if (value !== '') terminal.line(`  ${style('dim', name.padEnd(9))} ${value}`);
    for (const node of nodes) terminal.line(`  ${drawNode(node, style)}`);
    if (record.output !== null) terminal.value(record.output);
  });
  return record.state === 'ok' || record.state === 'queued' || record.state === 'running' ? EXIT.ok : EXIT.failed;
}
