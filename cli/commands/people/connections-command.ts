/** `svc connections`: the programs that somebody connected by signing in. */
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { UsageError } from '../../failure.ts';
import { change, readAll, showList } from '../../resource.ts';
import { CONNECTIONS } from '../../resources.ts';
import { accountOf } from './names.ts';

export function connections(context: CommandContext): ReturnType<RunCommand> {
  if (context.args.optionalAt(0) === undefined) context.args.endsAt(0);
  return runVerb(context, { '': list, rm: disconnect });
}

async function list({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const pid = await accountOf(client, args.text('person'));
  showList(terminal, CONNECTIONS, await readAll(client, CONNECTIONS, [pid]));
}

async function disconnect(context: CommandContext): Promise<void> {
  const { args, connect } = context;
  const hint = 'Connected programs: svc connections, or svc connections --person <person>';
  const wanted = args.wordAt(1, 'svc connections', '<connection>', hint);
  const client = connect();
  const pid = await accountOf(client, args.text('person'));
  const found = (await readAll(client, CONNECTIONS, [pid])).find(({ id }) => id === wanted);
  if (found === undefined) throw new UsageError(`There is no connection "${wanted}".`, hint);
  const params = { pid, connection: found.id };
  await change(context, {
    question: `Disconnect ${found.name}?`,
    call: () => client.call('DELETE /svc/_people/:pid/connections/:connection', { params }),
    done: `${found.name} is disconnected`,
  });
}
