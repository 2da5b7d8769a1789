/** `svc secret`: sets, lists and removes the secrets of an app or draft. A value comes from a prompt or standard input, never from an argument. */
import { isUtf8 } from 'node:buffer';
import { buffer as bufferOf } from 'node:stream/consumers';
import { LIMITS } from '../../protocol/limits.ts';
import type { SecretRecord } from '../../protocol/secrets.ts';
import { type CommandContext, type RunCommand, runVerb } from '../command.ts';
import { CommandError, UsageError } from '../failure.ts';
import { route } from '../gateway/api.ts';
import { formatAge } from '../terminal/units.ts';

const NOTHING_STORED = 'Nothing was stored.';

export function secret(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { set, ls: list, rm: remove });
}

async function set(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const path = pathOf(context, nameOf(context));
  const client = connect();
  const value = await readValue(context);
  if (value === '')
    throw new CommandError(
      `The value is empty. ${NOTHING_STORED}`,
      `To remove it: svc secret rm ${args.at(1)} ${args.at(2)}`,
    );
  const answer = await client.put<SecretRecord>(path, Buffer.from(JSON.stringify({ value })));
  terminal.answer(answer, () => terminal.done(`${answer.name} of ${ownerOf(context)} is set`));
  if (value.length < LIMITS.secretHiddenChars)
    terminal.warn(`Values under ${LIMITS.secretHiddenChars} characters are not taken out of logs and results.`);
  if (args.text('session') !== undefined) terminal.hint('It stays in the draft; publishing does not copy it.');
}

async function list(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const extra = args.optionalAt(2);
  if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`);
  const rows = await connect().get<SecretRecord[]>(pathOf(context));
  const now = Date.now();
  const whenNone = `There are no secrets. Set one: svc secret set ${args.at(1)} <name>`;
  terminal.list(rows, whenNone, ['SECRET', 'STATE', 'SET'], ({ name, state, updatedAt }) => [
    { text: name, format: 'bold' },
    { text: STATES[state], format: state === 'set' ? 'green' : 'yellow' },
    { text: updatedAt === null ? '–' : formatAge(updatedAt, now), format: 'dim' },
  ]);
}

const STATES: Record<SecretRecord['state'], string> = {
  set: 'set',
  unreadable: 'unreadable: set it again',
  missing: 'no value in the draft',
};

async function remove(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  const name = nameOf(context);
  const answer = await connect().delete(pathOf(context, name));
  terminal.answer(answer, () => terminal.done(`${name} of ${ownerOf(context)} is removed`));
}

function nameOf({ args }: CommandContext): string {
  const name = args.optionalAt(2);
  if (name !== undefined) return name;
  throw new UsageError(`<name> is missing: svc secret ${args.at(0)} ${args.at(1)} <name>.`, 'Such as: STRIPE_KEY');
}

function pathOf({ args }: CommandContext, name?: string): string {
  const [app, session] = [args.at(1), args.text('session')];
  const all =
    session === undefined ? route`/svc/_apps/${app}/secrets` : route`/svc/_draft/${session}/_apps/${app}/secrets`;
  return name === undefined ? all : all + route`/${name}`;
}

function ownerOf({ args, terminal }: CommandContext): string {
  const app = terminal.style('bold', args.at(1));
  const session = args.text('session');
  return session === undefined ? app : `the draft of ${app} in ${session}`;
}

/** The value that a person types unseen, or standard input without a final line end. */
async function readValue({ args, terminal }: CommandContext): Promise<string> {
  if (!terminal.stdin.isTTY) {
    const bytes = await bufferOf(terminal.stdin);
    if (!isUtf8(bytes))
      throw new CommandError(
        `The value is not UTF-8. ${NOTHING_STORED}`,
        'Encode it as text, such as: base64 < file | svc secret set …',
      );
    return bytes.toString().replace(/\r?\n$/, '');
  }
  const lines = await terminal.askUnseen(`Value of ${args.at(2)} (not shown): `);
  if (lines.length === 0)
    throw new CommandError(NOTHING_STORED, `Give a value: svc secret set ${args.at(1)} ${args.at(2)}`);
  if (lines.length > 1)
    throw new CommandError(
      `The value has several lines. ${NOTHING_STORED}`,
      `Use standard input: svc secret set ${args.at(1)} ${args.at(2)} < file`,
    );
  return lines[0] as string;
}
