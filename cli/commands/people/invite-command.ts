/** `svc invite`: links by which people get an account, and apps with it. */
import { LIMITS } from '../../../protocol/limits.ts';
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { change, readAll, showList } from '../../resource.ts';
import { INVITATIONS } from '../../resources.ts';
import { formatWait } from '../../terminal/units.ts';
import { hintMailed } from './mailed.ts';
import { wordOf } from './names.ts';

const ROLES = ['owner', 'author', 'member'] as const;

export function invite(context: CommandContext): ReturnType<RunCommand> {
  if (context.args.optionalAt(0) !== 'rm') context.args.endsAt(1);
  return runVerb(context, { '': make, ls: list, rm: withdraw });
}

async function make({ args, terminal, connect }: CommandContext): Promise<void> {
  const [name, email, role] = ['name', 'email', 'role'].map((option) => args.text(option));
  const days = args.days(
    'expires',
    LIMITS.invitationDaysMax,
    `Without it the link expires in ${LIMITS.invitationDays} days.`,
  );
  const uses = args.number('uses', 1, LIMITS.invitationUses);
  const grants = args.list('app').map((text) => {
    const [app = '', given = 'viewer'] = text.split(':');
    return { app, role: given };
  });
  const body = {
    ...(name !== undefined && { name }),
    ...(email !== undefined && { email }),
    ...(role !== undefined && { role: wordOf('--role', role, ROLES) }),
    ...(grants.length > 0 && { grants }),
    ...(days !== undefined && { expiresInDays: days }),
    ...(uses !== undefined && { uses }),
  };
  const answer = await connect().call('POST /svc/_invitations', { body });
  terminal.answer(answer, () => {
    const times = answer.uses === 1 ? 'works once' : `works ${answer.uses} times`;
    terminal.line(answer.url);
    const whom = name ?? email ?? 'whom it is for';
    hintMailed(terminal, answer.mailed, `Send it to ${whom}.`);
    terminal.hint(`It ${times}, and expires ${formatWait(answer.expiresAt, Date.now())}.`);
    terminal.hint('Keep it now: it is not shown again.');
  });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  showList(terminal, INVITATIONS, await readAll(connect(), INVITATIONS));
}

async function withdraw(context: CommandContext): Promise<void> {
  const invitation = context.args.wordAt(1, 'svc invite', '<invitation>', 'Invitations: svc invite ls');
  await change(context, {
    call: (client) => client.call('DELETE /svc/_invitations/:invitation', { params: { invitation } }),
    done: `${invitation} is withdrawn: its link works no more`,
  });
}
