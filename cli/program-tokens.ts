/** `svc token create`, `ls` and `revoke`: the tokens of a gateway for programs. */
import { LIMITS } from '../protocol/limits.ts';
import type { CommandContext } from './command.ts';
import { UsageError } from './failure.ts';
import type { NewToken, TokenRow } from './gateway/api.ts';
import type { Client } from './gateway/client.ts';
import { tokenPath, withQuery } from './gateway/paths.ts';
import { formatAge, formatWait } from './terminal/units.ts';

const TOOLS = ['read', 'write', 'all'];
/** What a token of each kind may do, in words. */
const MEANING: Record<string, string> = {
  read: 'read',
  write: 'read and write',
  all: 'do everything with',
};
const EXAMPLE = 'svc token create --name zapier --app todos --tools read --expires 90d';

export async function createProgramToken({ args, terminal, connect }: CommandContext): Promise<void> {
  const name = args.text('name');
  const tools = args.text('tools');
  if (name === undefined || tools === undefined) {
    const missing = name === undefined ? '--name says who uses the token' : '--tools says what it may do';
    throw new UsageError(`${missing}, and is needed.`, { command: 'token', hint: `Such as: ${EXAMPLE}` });
  }
  if (!TOOLS.includes(tools)) throw new UsageError(`--tools is ${TOOLS.join(', ')}; not "${tools}".`);
  const apps = args.list('app');
  const expiresInDays = daysOf(args.text('expires'));
  const client = connect();
  const answer = await client.post<NewToken>('/svc/_tokens', {
    name,
    tools,
    ...(apps.length === 0 ? {} : { apps }),
    ...(expiresInDays === undefined ? {} : { expiresInDays }),
  });
  terminal.answer(answer, () => {
    const { noteStyle } = terminal;
    const ends = answer.expiresAt === null ? 'never expires' : `expires ${formatWait(answer.expiresAt, Date.now())}`;
    terminal.line(answer.token);
    terminal.note(
      `${noteStyle('green', '✓')} ${answer.name} (${answer.id}) may ${MEANING[answer.tools]} ${appsOf(answer)}, and ${ends}`,
    );
    terminal.note(noteStyle('yellow', 'Keep the token now: it is not shown again.'));
    const body = JSON.stringify(answer.apps === null ? {} : { app: answer.apps[0] });
    terminal.note('Try it:');
    terminal.note(
      `  curl -H 'authorization: Bearer ${answer.token}' ${client.url}/svc/_tool/svc_describe -d '${body}'`,
    );
  });
}

export async function listProgramTokens({ terminal, connect }: CommandContext): Promise<void> {
  const rows = await allTokens(connect());
  terminal.answer(rows, () => {
    if (rows.length === 0) {
      terminal.note(`There are no tokens for programs. Make one: ${EXAMPLE}`);
      return;
    }
    const now = Date.now();
    terminal.table(
      [
        { title: 'TOKEN' },
        { title: 'NAME' },
        { title: 'APPS', squeeze: true },
        { title: 'TOOLS' },
        { title: 'EXPIRES' },
        { title: 'LAST USE' },
      ],
      rows.map((row) => [
        row.id,
        { text: row.name, format: 'bold' },
        appsOf(row),
        row.tools,
        expiryOf(row, now),
        { text: row.lastUsedAt === null ? 'never' : formatAge(row.lastUsedAt, now), format: 'dim' },
      ]),
    );
  });
}

/** Takes the id of a token, or its name where no other token has it. */
export async function revokeProgramToken({ args, terminal, connect }: CommandContext): Promise<void> {
  const named = args.optionalAt(1);
  if (named === undefined)
    throw new UsageError('Name the token to revoke: svc token revoke <id or name>.', { hint: 'Tokens: svc token ls' });
  const client = connect();
  const id = await idOf(client, named);
  const answer = await client.delete(tokenPath(id));
  terminal.answer(answer, () => {
    terminal.line(`${terminal.style('green', '✓')} ${named} is revoked, and refused from now on`);
  });
}

/** The gateway has the last word on what is neither id nor name. */
async function idOf(client: Client, named: string): Promise<string> {
  const rows = await allTokens(client);
  if (rows.some(({ id }) => id === named)) return named;
  const [first, ...others] = rows.filter(({ name }) => name === named);
  if (first !== undefined && others.length === 0) return first.id;
  if (first === undefined) return named;
  throw new UsageError(`Several tokens have the name "${named}"; use the id.`, {
    hint: [first, ...others].map(({ id }) => id).join('\n'),
  });
}

async function allTokens(client: Client): Promise<TokenRow[]> {
  const rows: TokenRow[] = [];
  for (;;) {
    const path = withQuery('/svc/_tokens', { limit: LIMITS.listRowsMax, before: rows.at(-1)?.id });
    const page = await client.get<TokenRow[]>(path);
    rows.push(...page);
    if (page.length < LIMITS.listRowsMax) return rows;
  }
}

/** `90d` → 90. */
function daysOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const days = Number(/^([1-9]\d{0,8})d$/.exec(text)?.[1] ?? 0);
  if (days >= 1 && days <= LIMITS.programTokenDays) return days;
  throw new UsageError(`--expires takes days, from 1d to ${LIMITS.programTokenDays}d, not "${text}".`, {
    command: 'token',
    hint: 'Without it the token never expires.',
  });
}

function appsOf({ apps }: TokenRow): string {
  return apps === null ? 'every app' : apps.join(', ');
}

function expiryOf({ expiresAt }: TokenRow, now: number) {
  if (expiresAt === null) return 'never';
  return expiresAt <= now
    ? { text: 'expired', format: 'red' as const }
    : { text: formatWait(expiresAt, now), format: 'reset' as const };
}
