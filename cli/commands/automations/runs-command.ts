/** `svc run` and `svc runs`: runs an automation, shows, repeats and cancels runs, and follows them. */
import { parseRef } from '../../../protocol/automations/automation.ts';
import { RUN_STATES } from '../../../protocol/automations/run-states.ts';
import {
  CHAT_RUNS,
  outcomeOf,
  type RunEvent,
  type RunNode,
  type RunRecord,
} from '../../../protocol/automations/runs.ts';
import { addressOf } from '../../../protocol/http/client.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type CommandContext, jsonArgument } from '../../command.ts';
import { CommandError, EXIT, UsageError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { readList, showList } from '../../resource.ts';
import { RUNS, runTime } from '../../resources.ts';
import { drawRunState } from '../../terminal/states.ts';
import type { Style } from '../../terminal/style.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { formatDuration, formatMoment } from '../../terminal/units.ts';
import { notesOfStream } from '../apps/data-command.ts';

export async function run(context: CommandContext): Promise<number> {
  const { args, terminal, connect } = context;
  const client = connect();
  const what = args.at(0);
  const runId = () => args.wordAt(1, 'svc run', '<run>', 'Latest runs: svc runs');
  if (what === 'show') {
    const params = { runId: runId() };
    const record = await client.call('GET /svc/_runs/:runId', { params });
    draw(terminal, record, await client.call('GET /svc/_runs/:runId/nodes', { params }));
    return EXIT.ok;
  }
  if (what === 'cancel') {
    draw(terminal, await client.call('POST /svc/_runs/:runId/cancel', { params: { runId: runId() } }));
    return EXIT.ok;
  }
  const earlier = what === 'again' ? await repeatable(client, runId()) : null;
  const ref = earlier?.ref ?? what;
  const params = parseRef(ref);
  if (params === null)
    throw new UsageError(`"${what}" is not an automation: svc run <app>/<automation>.`, 'List them: svc automations');
  const input = earlier === null ? await jsonArgument(context, 1) : earlier.input;
  const { runId: id } = await client.call('POST /svc/_automations/:app/:id/run', { params, body: { input } });
  if (!args.has('wait')) {
    terminal.answer({ runId: id }, () => {
      terminal.line(`${terminal.style('green', '▶')} ${terminal.style('bold', ref)}  ${id}`);
      terminal.hint(`Look at it: svc run show ${id}`);
    });
    return EXIT.ok;
  }
  const record = await ended(client, params, id);
  if (record !== null) {
    draw(terminal, record);
    return ['ok', 'queued', 'running'].includes(record.state) ? EXIT.ok : EXIT.failed;
  }
  terminal.answer({ runId: id, state: 'ok' }, () => {
    const { text, format } = drawRunState('ok');
    terminal.line(`${terminal.style(format, text)}  ${terminal.style('bold', ref)}  ${id}`);
    terminal.hint('Its result is not known: its history keeps only runs that failed.');
  });
  return EXIT.ok;
}

/** A run with its whole input. */
async function repeatable(client: Client, id: string): Promise<RunRecord> {
  const record = await client.call('GET /svc/_runs/:runId', { params: { runId: id } });
  if (record.automation !== CHAT_RUNS) return record;
  throw new CommandError('That run was a turn of a chat.', `Send the message again: svc chat ${record.app}`);
}

/** The run as it ended. Null for one that succeeded before it could be followed, where the history keeps only failures. */
async function ended(client: Client, params: { app: string; id: string }, runId: string): Promise<RunRecord | null> {
  try {
    for await (const { event, data } of client.follow(addressOf('GET /svc/_runs/:runId/events', { params: { runId } })))
      if (event === 'run.end') return (JSON.parse(data) as { run: RunRecord }).run;
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'UNKNOWN_RUN') throw error;
    const { manifest } = await client.call('GET /svc/_automations/:app/:id', { params });
    if (manifest.history.keep === 'errors') return null;
    throw error;
  }
  throw new GatewayError(500, { code: 'INTERNAL', message: 'The event stream ended before the run.' });
}

function draw(terminal: Terminal, record: RunRecord, nodes: RunNode[] = []): void {
  terminal.answer(nodes.length > 0 ? { ...record, nodes } : record, () => {
    const { style } = terminal;
    const { state, ref, startedAt, parentRunId, output, by } = record;
    const { text, format } = drawRunState(state);
    terminal.line(`${style(format, text)}  ${style('bold', ref)}  ${style('dim', record.runId)}`);
    terminal.facts({
      fired: drawTrigger(record),
      by: by?.name,
      started: startedAt === null ? '' : `${formatMoment(startedAt)}, took ${runTime(record, Date.now())}`,
      outcome: outcomeOf(record),
      parent: parentRunId,
    });
    for (const node of nodes) terminal.line(`  ${drawNode(node, style)}`);
    if (output !== null) terminal.value(output);
  });
}

/** The latest runs, newest first; with `-f`, what happens from now on. With `--json` and `-f`, one event a line. */
export async function runs({ args, terminal, connect }: CommandContext): Promise<void> {
  const filter = { ref: args.optionalAt(0), app: args.text('app') };
  const named = args.text('state');
  const state = RUN_STATES.find((one) => one === named);
  if (named !== state) throw new UsageError(`There is no state "${named}".`, `States: ${RUN_STATES.join(', ')}`);
  if (state !== undefined && args.has('follow'))
    throw new UsageError('--state is not for --follow, which shows each run from its start to its end.');
  const client = connect();
  if (args.has('follow')) {
    await checkNamed(client, filter);
    return follow(client, terminal, addressOf('GET /svc/_runs/_events', { query: filter }));
  }
  const limit = args.number('lines', 1, LIMITS.listRowsMax);
  const { rows } = await readList(client, RUNS, [], { ...filter, state, limit });
  // Runs can outlive their automation. Without any run, the named app or automation may not exist.
  if (rows.length === 0) await checkNamed(client, filter);
  showList(terminal, RUNS, rows);
}

/** Rejects with `UNKNOWN_APP` and `UNKNOWN_AUTOMATION`. */
async function checkNamed(client: Client, { ref, app }: Record<'ref' | 'app', string | undefined>): Promise<void> {
  const [ofApp = '', automation] = ref?.split('/') ?? [];
  if (automation !== undefined)
    await client.call('GET /svc/_automations/:app/:id', { params: { app: ofApp, id: automation } });
  if (app !== undefined) await client.call('GET /svc/_apps/:id', { params: { id: app } });
}

async function follow(client: Client, terminal: Terminal, path: string): Promise<void> {
  const refs = new Map<string, string>();
  for await (const { data } of client.follow(path, notesOfStream(terminal, 'runs'))) {
    const event = JSON.parse(data) as RunEvent;
    const text = terminal.json ? null : drawRunEvent(event, refs, terminal.style);
    if (terminal.json) terminal.event(event);
    else if (text !== null) terminal.line(text);
  }
}

/** One line of what followers see of runs; null for events that are not shown. `refs` knows the automation of each run. */
function drawRunEvent(event: RunEvent, refs: Map<string, string>, style: Style): string | null {
  switch (event.type) {
    case 'run.start': {
      const { run: started } = event;
      refs.set(started.runId, started.ref);
      const { by } = started;
      const text = `▶ ${drawTrigger(started)}${by === undefined ? '' : ` by ${by.name}`}  ${style('dim', started.runId)}`;
      return line(started.startedAt ?? started.queuedAt, started.ref, text);
    }
    case 'node.end':
      return line(event.node.endedAt, refs.get(event.node.runId), `  ${drawNode(event.node, style)}`);
    case 'log': {
      const { level = 'info', msg = '', ts } = (event.line ?? {}) as { level?: unknown; msg?: unknown; ts?: unknown };
      const at = typeof ts === 'number' ? ts : Date.parse(String(ts));
      const text = `  ${style('dim', `${level}  ${msg}`)}`;
      return line(Number.isNaN(at) ? Date.now() : at, refs.get(event.runId), text);
    }
    case 'run.end': {
      const { run: end } = event;
      refs.delete(end.runId);
      const { text, format } = drawRunState(end.state);
      const took = end.startedAt === null ? '' : `  ${style('dim', runTime(end, end.startedAt))}`;
      return line(end.endedAt ?? end.queuedAt, end.ref, `${style(format, text)}${took}  ${outcomeOf(end)}`);
    }
    default:
      return null;
  }

  function line(at: number, ref: string | undefined, text: string): string {
    return `${style('dim', formatMoment(at))}  ${style('bold', ref ?? '…')}  ${text}`.trimEnd();
  }
}

/** `✓ svc_read {"app":"todos",…}  3 ms`, `✓ GET https://example.com/feed  200  41 ms`. */
function drawNode({ kind, name, args, output, ok, error, startedAt, endedAt }: RunNode, style: Style): string {
  const sign = ok ? style('green', '✓') : style('red', '✗');
  const why = error ? `  ${style('red', `${error.code}: ${error.message}`)}` : '';
  const text = args === null || args === undefined ? '' : ` ${JSON.stringify(args)}`;
  const given = text.length > 81 ? `${text.slice(0, 80)}…` : text;
  const status = kind === 'fetch' && output ? `  ${(output as { status?: unknown }).status}` : '';
  return `${sign} ${style('cyan', name)}${style('dim', given)}${status}  ${style('dim', formatDuration(endedAt - startedAt))}${why}`;
}

/** What fired a run: `cron 2026-01-31T08:00:00.000Z`, `webhook <slug>`, `manual`. */
function drawTrigger({ trigger: { kind, origin } }: RunRecord): string {
  if (origin === null) return kind;
  return `${kind} ${typeof origin === 'number' ? new Date(origin).toISOString() : origin}`;
}
