/** `svc groups`: several people with whom an app is shared at once. */
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { change, readAll, showList } from '../../resource.ts';
import { PEOPLE_GROUPS } from '../../resources.ts';
import { findGroup, findPerson } from './names.ts';

export function groups(context: CommandContext): ReturnType<RunCommand> {
  const verb = context.args.optionalAt(0);
  if (verb === 'new' || verb === 'rm') context.args.endsAt(2);
  return runVerb(context, {
    '': list,
    new: make,
    add: (given) => move(given, true),
    drop: (given) => move(given, false),
    rm: remove,
  });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  showList(terminal, PEOPLE_GROUPS, await readAll(connect(), PEOPLE_GROUPS));
}

function groupIn({ args }: CommandContext): string {
  return args.wordAt(1, 'svc groups', '<group>', 'Groups: svc groups');
}

async function make(context: CommandContext): Promise<void> {
  const name = groupIn(context);
  await change(context, {
    call: (client) => client.call('POST /svc/_groups', { body: { name } }),
    done: `The group "${name}" is made`,
    hint: `Put people into it: svc groups add ${JSON.stringify(name)} Ada`,
  });
}

async function move(context: CommandContext, isIn: boolean): Promise<void> {
  const { args, connect } = context;
  const named = groupIn(context);
  const who = args.wordAt(2, 'svc groups', '<person>', 'People: svc people');
  const client = connect();
  const { id: gid, members, name: group } = await findGroup(client, named);
  const { id, name } = await findPerson(client, who);
  const others = members.filter((member) => member !== id);
  await change(context, {
    call: (asked) =>
      asked.call('PATCH /svc/_groups/:gid', { params: { gid }, body: { members: isIn ? [...others, id] : others } }),
    done: `${name} is ${isIn ? 'in' : 'no more in'} "${group}"`,
  });
}

async function remove(context: CommandContext): Promise<void> {
  const { id, name } = await findGroup(context.connect(), groupIn(context));
  await change(context, {
    question: `Remove the group "${name}", with everything that is shared with it?`,
    call: (client) => client.call('DELETE /svc/_groups/:gid', { params: { gid: id } }),
    done: `The group "${name}" is removed`,
  });
}
