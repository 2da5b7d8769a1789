/** `svc secret`: sets, lists and removes the secrets of an app or draft. A value comes from a prompt or standard input, never from an argument. */
import { isUtf8 } from 'node:buffer';
import { buffer as bufferOf } from 'node:stream/consumers';
import { LIMITS } from '../../protocol/limits.ts';
import type { SecretRecord } from '../../protocol/secrets.ts';
import { type CommandContext, type RunCommand, runVerb } from '../command.ts';
import { CommandError } from '../failure.ts';
import { route } from '../gateway/api.ts';
import { readAll, remove, showList } from '../resource.ts';
import { SECRETS } from '../resources.ts';

const NOTHING_STORED = 'Nothing was stored.';

export function secret(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { set, ls: list, rm: removeSecret });
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
  args.endsAt(2);
  showList(terminal, SECRETS, await readAll(connect(), SECRETS, scopeOf(context)), { scope: scopeOf(context) });
}

async function removeSecret(context: CommandContext): Promise<void> {
  const name = nameOf(context);
  await remove(context, { path: pathOf(context, name), done: `${name} of ${ownerOf(context)} is removed` });
}

function nameOf({ args }: CommandContext): string {
  return args.wordAt(2, 'svc secret', '<name>', 'Such as: STRIPE_KEY');
}

/** The app, and the session whose draft of it is meant. */
function scopeOf({ args }: CommandContext): string[] {
  return [args.at(1), ...args.list('session').slice(-1)];
}

function pathOf(context: CommandContext, name: string): string {
  return SECRETS.path(...scopeOf(context)) + route`/${name}`;
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
