/** `svc notify`: the ways by which notices reach people, and a test of them. */
import type { ChannelStatus, TestResult } from '../../../protocol/notices.ts';
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import type { Column } from '../../terminal/table.ts';
import { formatAge, formatCount } from '../../terminal/units.ts';

const HOW = 'Add "mail" or "notify" to the configuration, or let a browser agree: the console, System, Notices.';

export function notify(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { '': list, test });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  const { channels } = await connect().get<{ channels: ChannelStatus[] }>('/svc/_notices');
  const now = Date.now();
  const columns: Column[] = [
    'CHANNEL',
    'STATE',
    { title: 'LAST SENT', drop: 3 },
    { title: 'WAITING', align: 'right', drop: 2 },
    { title: 'LAST FAILURE', squeeze: true, drop: 1 },
  ];
  terminal.list(channels, `Notices reach nobody. ${HOW}`, columns, (status) => [
    { text: nameOf(status), format: 'bold' },
    stateOf(status),
    status.lastSentAt === null ? '' : formatAge(status.lastSentAt, now),
    formatCount(status.waiting),
    { text: failureOf(status, now), format: 'dim' },
  ]);
}

async function test({ args, terminal, connect }: CommandContext): Promise<void> {
  const channel = args.optionalAt(1);
  const extra = args.optionalAt(2);
  if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`, 'svc notify test [channel]');
  const body = channel === undefined ? {} : { channel };
  const { results } = await connect().post<{ results: TestResult[] }>('/svc/_notices/test', body);
  if (results.length === 0) throw new CommandError('Notices reach nobody.', HOW);
  terminal.answer({ results }, () => {
    for (const { channel, ok } of results) if (ok) terminal.done(`${terminal.style('bold', channel)} took the test`);
  });
  const failed = results.filter(({ ok }) => !ok);
  if (failed.length === 0) return;
  const names = failed.map(({ channel }) => channel).join(', ');
  throw new CommandError(`The test did not reach ${names}.`, [
    ...failed.map(({ channel, message }) => `${channel}: ${message}`),
    'Correct the configuration, and start the gateway again.',
  ]);
}

/** A browser is known by its name. */
export function nameOf({ channel, browser }: ChannelStatus): string {
  return browser === undefined ? channel : `${channel} (${browser.name})`;
}

const STATES = { idle: ['dim', 'nothing sent yet'], ok: ['green', '● works'], failing: ['red', '● fails'] } as const;

function stateOf({ state }: ChannelStatus) {
  const [format, text] = STATES[state];
  return { text, format };
}

export function failureOf({ lastFailure }: ChannelStatus, now: number): string {
  return lastFailure === null ? '' : `${formatAge(lastFailure.at, now)}: ${lastFailure.message}`;
}
