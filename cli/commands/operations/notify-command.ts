/** `svc notify`: the ways by which notices reach people, and a test of them. */
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import { readAll, showList } from '../../resource.ts';
import { CHANNELS, NOTICES_HOW } from '../../resources.ts';

export function notify(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { '': list, test });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  showList(terminal, CHANNELS, await readAll(connect(), CHANNELS));
}

async function test({ args, terminal, connect }: CommandContext): Promise<void> {
  const channel = args.optionalAt(1);
  args.endsAt(2, () => 'svc notify test [channel]');
  const body = channel === undefined ? {} : { channel };
  const { results } = await connect().call('POST /svc/_notices/test', { body });
  if (results.length === 0) throw new CommandError('Notices reach nobody.', NOTICES_HOW);
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
