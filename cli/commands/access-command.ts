/** `svc open` and `svc token`: links that sign a browser in, the access token, and tokens for programs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import type { PageOwner } from '../../protocol/http/origins.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Received } from '../../protocol/routes/api.ts';
import { Layout } from '../../storage/layout.ts';
import { readToken, rotateToken } from '../../storage/token.ts';
import { type CommandContext, type RunCommand, runVerb } from '../command.ts';
import { CommandError, UnreachableError, UsageError } from '../failure.ts';
import { Client } from '../gateway/client.ts';
import { daemonOf } from '../gateway/connection.ts';
import { gatewaysElsewhere } from '../gateway/elsewhere.ts';
import { makeLink } from '../gateway/page-links.ts';
import { linkForPhone } from '../gateway/phone.ts';
import { change, readAll, showList } from '../resource.ts';
import { appsOfToken, TOKEN_EXAMPLE, TOKENS } from '../resources.ts';
import { shellPath, shortPath } from '../terminal/paths.ts';
import { formatClock, formatWait } from '../terminal/units.ts';

export async function open(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const client = connect();
  const app = args.optionalAt(0);
  const workspace = args.text('workspace');
  if (workspace !== undefined && app === undefined) throw new UsageError('Name the app whose draft to open.');
  // An error here lists the apps that exist; the browser would only show an error page.
  if (app !== undefined)
    await (workspace === undefined
      ? client.call('GET /svc/_apps/:id', { params: { id: app } })
      : client.call('GET /svc/_sessions/:sid/apps/:id/files', { params: { sid: workspace, id: app } }));
  const page = app === undefined ? undefined : { app, ...(workspace && { workspace }) };
  if (args.has('qr')) return openOnPhone(context, client, page);
  const link = await makeLink(client, page);
  terminal.answer(link, () => {
    terminal.line(link.url);
    terminal.hint(`Signs one browser in, until ${formatClock(link.expiresAt).slice(0, 'hh:mm'.length)}.`);
  });
}

async function openOnPhone(context: CommandContext, client: Client, page: PageOwner | undefined): Promise<void> {
  const { args, terminal } = context;
  const named = args.text('data-dir');
  const serve = `svc serve${named === undefined ? '' : ` --data-dir ${shellPath(named)}`}`;
  const link = await linkForPhone(client, page, serve);
  const { renderUnicodeCompact } = await import('uqr');
  terminal.answer(link, () => {
    // White on black, whatever the colours of the terminal: cameras read that best.
    const code = renderUnicodeCompact(link.url, { ecc: 'L', border: QUIET }).split('\n');
    terminal.lines(code.map((line) => terminal.style(['whiteBright', 'bgBlack'], line)));
    terminal.line(link.url);
    const until = formatClock(link.expiresAt).slice(0, 'hh:mm'.length);
    terminal.hint(`Scan it with a phone in the same network. It signs one browser in, until ${until}.`);
    if (link.url.startsWith('http:')) terminal.hint('Plain HTTP: others in that network can read what is sent.');
  });
}

/** Modules around a QR code that stay light. */
const QUIET = 2;
const CONNECTION = ['url', 'token'];
/** The options that each verb takes. */
const OPTIONS: Record<string, string[]> = {
  create: ['name', 'app', 'tools', 'expires', ...CONNECTION],
  ls: CONNECTION,
  revoke: CONNECTION,
};

export function token(context: CommandContext): ReturnType<RunCommand> {
  const { args } = context;
  const verb = args.optionalAt(0) ?? '';
  const foreign = Object.values(OPTIONS)
    .flat()
    .find((option) => args.has(option) && !(Object.hasOwn(OPTIONS, verb) && OPTIONS[verb]?.includes(option)));
  if (foreign !== undefined) throw new UsageError(`--${foreign} is not for "${`svc token ${verb}`.trim()}".`);
  if (verb !== 'revoke') args.endsAt(1);
  return runVerb(context, { '': print, rotate, create, ls: list, revoke });
}

async function print(context: CommandContext): Promise<void> {
  const { terminal, dataDirectory } = context;
  const path = new Layout(dataDirectory).token;
  const text = await readToken(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    throw new CommandError(`There is no token in ${shortPath(dataDirectory, context)}.`, [
      ...(await gatewaysElsewhere({ dataDir: dataDirectory }, context)),
      'The first start of a gateway creates it: svc serve. For another directory: --data-dir',
    ]);
  });
  terminal.answer({ token: text, path }, () => terminal.line(text));
}

async function rotate(context: CommandContext): Promise<void> {
  const { terminal, dataDirectory } = context;
  const path = new Layout(dataDirectory).token;
  const text = await rotateToken(path);
  const taken = await isTaken(context, text);
  terminal.answer({ token: text, path, taken }, () => {
    terminal.line(text);
    terminal.note(
      taken
        ? 'The running gateway uses it. The old token is no longer valid, and browsers have to sign in again.'
        : 'No gateway is running; the next start uses it.',
    );
    terminal.note('Tokens for programs stay valid: svc token ls');
  });
}

/** Waits until the running gateway accepts the new token; false when none is running. */
async function isTaken(context: CommandContext, text: string): Promise<boolean> {
  const daemon = daemonOf(context.dataDirectory, context);
  if (daemon === null) return false;
  const client = new Client({ ...daemon, token: text });
  const until = Date.now() + LIMITS.childStartMs;
  for (;;) {
    try {
      await client.call('GET /svc/_apps', {}, { timeoutMs: LIMITS.helloMs });
      return true;
    } catch (error) {
      if (error instanceof UnreachableError) return false;
      if (!(error instanceof GatewayError) || error.status !== 401) throw error;
      if (Date.now() > until)
        throw new CommandError(
          'The new token is written, but the running gateway does not use it.',
          'Restart it, then check with: svc doctor',
        );
    }
    await sleep(50);
  }
}

type Tools = Received<'POST /svc/_tokens'>['tools'];

/** What a token of each kind may do. */
const TOOLS: Record<Tools, string> = { read: 'read', write: 'read and write', all: 'do everything with' };

async function create({ args, terminal, connect }: CommandContext): Promise<void> {
  const name = args.text('name');
  const tools = args.text('tools');
  if (name === undefined)
    throw new UsageError('--name is required: it says who uses the token.', `Such as: ${TOKEN_EXAMPLE}`);
  if (tools === undefined)
    throw new UsageError('--tools is required: it says what the token may do.', `Such as: ${TOKEN_EXAMPLE}`);
  if (!isTools(tools)) throw new UsageError(`--tools takes one of ${Object.keys(TOOLS).join(', ')}; not "${tools}".`);
  const apps = args.list('app');
  const days = args.days('expires', LIMITS.programTokenDays, 'Without it the token never expires.');
  const body = { name, tools, ...(apps.length > 0 && { apps }), ...(days !== undefined && { expiresInDays: days }) };
  const client = connect();
  const answer = await client.call('POST /svc/_tokens', { body });
  terminal.answer(answer, () => {
    const { noteStyle } = terminal;
    const { id, expiresAt } = answer;
    const ends = expiresAt === null ? 'never expires' : `expires ${formatWait(expiresAt, Date.now())}`;
    terminal.line(answer.token);
    terminal.note(
      `${noteStyle('green', '✓')} ${answer.name} (${id}) may ${TOOLS[answer.tools]} ${appsOfToken(answer)}, and ${ends}`,
    );
    terminal.note(noteStyle('yellow', 'Keep the token now: it is not shown again.'));
    const example = JSON.stringify(answer.apps === null ? {} : { app: answer.apps[0] });
    terminal.note('Try it:');
    terminal.note(
      `  curl -H 'authorization: Bearer ${answer.token}' ${client.url}/svc/_tool/svc_describe -d '${example}'`,
    );
  });
}

function isTools(word: string): word is Tools {
  return Object.hasOwn(TOOLS, word);
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  showList(terminal, TOKENS, await readAll(connect(), TOKENS));
}

/** Takes the id of a token, or its name if no other token has it. */
async function revoke(context: CommandContext): Promise<void> {
  const { args, connect } = context;
  const named = args.wordAt(1, 'svc token', '<id or name>', 'Tokens: svc token ls');
  const rows = await readAll(connect(), TOKENS);
  const byName = rows.filter(({ name }) => name === named);
  const isId = rows.some(({ id }) => id === named);
  if (!isId && byName.length > 1)
    throw new UsageError(
      `Several tokens have the name "${named}"; use the id.`,
      byName.map(({ id }) => id),
    );
  // The gateway refuses a text that is neither an id nor a name.
  const id = isId ? named : (byName[0]?.id ?? named);
  await change(context, {
    call: (client) => client.call('DELETE /svc/_tokens/:id', { params: { id } }),
    done: `${named} is revoked, and refused from now on`,
  });
}
