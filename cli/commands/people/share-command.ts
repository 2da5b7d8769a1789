/** `svc share`, `svc unshare` and `svc shares`: who has an app, and in what role. */
import { LIMITS } from '../../../protocol/limits.ts';
import type { Sent } from '../../../protocol/routes/api.ts';
import type { CommandContext } from '../../command.ts';
import { UsageError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { change, readAll, showList } from '../../resource.ts';
import { PEOPLE, PEOPLE_GROUPS, SHARES } from '../../resources.ts';
import { formatWait } from '../../terminal/units.ts';
import { hintMailed } from './mailed.ts';
import { groupAmong, personAmong } from './names.ts';

type Whom = Omit<Sent<'POST /svc/_apps/:id/shares'>['body'], 'role' | 'expiresInDays'>;

export async function share({ args, terminal, connect }: CommandContext): Promise<void> {
  const id = args.at(0);
  const role = args.text('role') ?? 'viewer';
  const days = args.days('expires', LIMITS.shareDays, 'Without it the share does not end by itself.');
  const client = connect();
  const who = args.optionalAt(1);
  const to = args.has('link') ? linkFor(who) : await whom(client, who, id);
  const body = { ...to, role, ...(days !== undefined && { expiresInDays: days }) };
  const answer = await client.call('POST /svc/_apps/:id/shares', { params: { id }, body });
  terminal.answer(answer, () => {
    const { name, url, expiresAt } = answer;
    const until = expiresAt === null ? '' : `, which ends ${formatWait(expiresAt, Date.now())}`;
    if (url !== undefined && answer.with === 'link') {
      terminal.line(url);
      terminal.hint(
        `Whoever has it is ${role} of "${id}" without an account${until}. End it: svc unshare ${id} ${answer.id}`,
      );
      return;
    }
    if (url !== undefined && expiresAt !== null) {
      terminal.line(url);
      hintMailed(terminal, answer.mailed, `Send it to ${name}.`);
      terminal.hint(
        `It makes an account that is ${role} of "${id}", and expires ${formatWait(expiresAt, Date.now())}.`,
      );
      return;
    }
    terminal.done(`${name} is ${role} of "${id}"${until}`);
  });
}

export async function unshare(context: CommandContext): Promise<void> {
  const [id, who] = [context.args.at(0), context.args.at(1)];
  const rows = await readAll(context.connect(), SHARES, [id]);
  const lower = who.toLowerCase();
  const found = rows.filter((row) =>
    [row.id, row.name, row.email, row.person].some((one) => one?.toLowerCase() === lower),
  );
  const [one, other] = found;
  if (one === undefined) throw new UsageError(`"${id}" is not shared with "${who}".`, `Who has it: svc shares ${id}`);
  if (other !== undefined)
    throw new UsageError(
      `Several have the name "${who}"; use the id.`,
      found.map((row) => `${row.id} ${row.with}`),
    );
  await change(context, {
    call: (client) => client.call('DELETE /svc/_apps/:id/shares/:share', { params: { id, share: one.id } }),
    done: one.with === 'link' ? `The link to "${id}" has ended` : `${one.name} has "${id}" no more`,
  });
}

export async function shares({ args, terminal, connect }: CommandContext): Promise<void> {
  const id = args.at(0);
  showList(terminal, SHARES, await readAll(connect(), SHARES, [id]), { scope: [id] });
}

/** A link is for nobody in particular. */
function linkFor(who: string | undefined): Whom {
  if (who === undefined) return { link: true };
  throw new UsageError(`A link is for whoever has it, not for "${who}".`, 'Leave out --link, or the name.');
}

/** Whom a word names: everyone, a person, a group, or an e-mail address to invite. */
async function whom(client: Client, who: string | undefined, app: string): Promise<Whom> {
  if (who === undefined)
    throw new UsageError('Say with whom.', [
      `Somebody: svc share ${app} ada@example.org`,
      `Whoever has a link: svc share ${app} --link`,
    ]);
  if (who === 'everyone') return { everyone: true };
  // The gateway knows whose it is.
  if (who.includes('@')) return { email: who };
  const person = personAmong(await readAll(client, PEOPLE), who);
  const group = groupAmong(await readAll(client, PEOPLE_GROUPS), who);
  if (person !== undefined && group !== undefined)
    throw new UsageError(`A person and a group are called "${who}"; use the id.`, [person.id, group.id]);
  if (person !== undefined) return { person: person.id };
  if (group !== undefined) return { group: group.id };
  throw new UsageError(`There is no person and no group "${who}".`, [
    'People: svc people',
    'Groups: svc groups',
    'To invite somebody, name their e-mail address.',
  ]);
}
