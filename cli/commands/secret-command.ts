/** `svc secret`: sets, lists and removes the secrets of an app or draft. A value comes from a prompt or standard input, never from an argument. */
import { isUtf8 } from 'node:buffer';
import { buffer as bufferOf } from 'node:stream/consumers';
import { LIMITS } from '../../protocol/limits.ts';
import { type CommandContext, type RunCommand, runVerb } from '../command.ts';
import { CommandError } from '../failure.ts';
import { change, readAll, showList } from '../resource.ts';
import { SECRETS } from '../resources.ts';

const NOTHING_STORED = 'Nothing was stored.';

export function secret(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { set, ls: list, rm: removeSecret });
}

async function set(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const params = paramsOf(context);
  connect();
  const value = await readValue(context);
  if (value === '')
    throw new CommandError(
      `The value is empty. ${NOTHING_STORED}`,
      `To remove it: svc secret rm ${args.at(1)} ${args.at(2)}`,
    );
  await change(context, {
    call: (client) => client.call('PUT /svc/_apps/:id/secrets/:name', { params, body: { value } }),
    done: ({ name }) => `${name} of ${ownerOf(context)} is set`,
  });
  if (value.length < LIMITS.secretHiddenChars)
    terminal.warn(`Values under ${LIMITS.secretHiddenChars} characters are not taken out of logs and results.`);
  if (args.text('workspace') !== undefined) terminal.hint('It stays in the draft; publishing does not copy it.');
}

async function list(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  args.endsAt(2);
  showList(terminal, SECRETS, await readAll(connect(), SECRETS, scopeOf(context)), { scope: scopeOf(context) });
}

async function removeSecret(context: CommandContext): Promise<void> {
  const params = paramsOf(context);
  await change(context, {
    call: (client) => client.call('DELETE /svc/_apps/:id/secrets/:name', { params }),
    done: `${params.name} of ${ownerOf(context)} is removed`,
  });
}

/** The app, and the workspace whose draft of it is meant. */
function scopeOf({ args }: CommandContext): string[] {
  return [args.at(1), ...args.list('workspace').slice(-1)];
}

function paramsOf({ args }: CommandContext): { id: string; sid: string | undefined; name: string } {
  const name = args.wordAt(2, 'svc secret', '<name>', 'Such as: STRIPE_KEY');
  return { id: args.at(1), sid: args.text('workspace'), name };
}

function ownerOf({ args, terminal }: CommandContext): string {
  const app = terminal.style('bold', args.at(1));
  const workspace = args.text('workspace');
  return workspace === undefined ? app : `the draft of ${app} in ${workspace}`;
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
