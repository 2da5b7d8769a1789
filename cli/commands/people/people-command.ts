/** `svc people`: the accounts of the gateway, their roles, and where they are signed in. */
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { change, readAll, showList } from '../../resource.ts';
import { PEOPLE, PERSON_SESSIONS } from '../../resources.ts';
import { formatWait } from '../../terminal/units.ts';
import { hintMailed } from './mailed.ts';
import { findPerson, type PersonRow, wordOf } from './names.ts';

const ROLES = ['owner', 'author', 'member'] as const;

export function people(context: CommandContext): ReturnType<RunCommand> {
  const { args } = context;
  const verb = args.optionalAt(0);
  if (verb !== undefined && verb !== 'role') args.endsAt(2);
  return runVerb(context, {
    '': list,
    sessions,
    role,
    disable: (given) => switchPerson(given, true),
    enable: (given) => switchPerson(given, false),
    link,
    signout,
    rm: remove,
  });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  showList(terminal, PEOPLE, await readAll(connect(), PEOPLE));
}

function named({ args, connect }: CommandContext): Promise<PersonRow> {
  return findPerson(connect(), args.wordAt(1, 'svc people', '<person>', 'People: svc people'));
}

async function sessions(context: CommandContext): Promise<void> {
  const { id } = await named(context);
  showList(context.terminal, PERSON_SESSIONS, await readAll(context.connect(), PERSON_SESSIONS, [id]));
}

async function role(context: CommandContext): Promise<void> {
  const wanted = context.args.wordAt(2, 'svc people', `<${ROLES.join('|')}>`, 'Such as: svc people role Ada author');
  const given = wordOf('"role"', wanted, ROLES);
  const { id, name } = await named(context);
  await change(context, {
    call: (client) => client.call('PATCH /svc/_people/:pid', { params: { pid: id }, body: { role: given } }),
    done: `${name} is ${given} now`,
  });
}

async function switchPerson(context: CommandContext, disabled: boolean): Promise<void> {
  const { id, name } = await named(context);
  await change(context, {
    call: (client) => client.call('PATCH /svc/_people/:pid', { params: { pid: id }, body: { disabled } }),
    done: disabled ? `${name} is signed out, and may not sign in` : `${name} may sign in again`,
  });
}

async function link(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  const { id, name } = await named(context);
  const answer = await connect().call('POST /svc/_people/:pid/link', { params: { pid: id } });
  terminal.answer(answer, () => {
    terminal.line(answer.url);
    hintMailed(terminal, answer.mailed, `Send it to ${name}.`);
    terminal.hint(`It signs them in once, and expires ${formatWait(answer.expiresAt, Date.now())}.`);
  });
}

async function signout(context: CommandContext): Promise<void> {
  const { id, name } = await named(context);
  await change(context, {
    call: (client) => client.call('DELETE /svc/_people/:pid/sessions', { params: { pid: id } }),
    done: ({ ended }) => `${name} is signed out in ${ended} ${ended === 1 ? 'browser' : 'browsers'}`,
  });
}

async function remove(context: CommandContext): Promise<void> {
  const { id, name } = await named(context);
  await change(context, {
    question: `Remove ${name}, with everything that is shared with them?`,
    call: (client) => client.call('DELETE /svc/_people/:pid', { params: { pid: id } }),
    done: `${name} is removed`,
  });
}
