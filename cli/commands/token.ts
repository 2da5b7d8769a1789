/** `svc token`: the administrator's token of a data directory, and the tokens of a gateway for programs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { Layout } from '../../storage/layout.ts';
import { readToken, rotateToken } from '../../storage/token.ts';
import type { CommandContext } from '../command.ts';
import { CommandError, GatewayError, UnreachableError, UsageError } from '../failure.ts';
import { Client } from '../gateway/client.ts';
import { readDaemonFile, shortPath } from '../gateway/data-directory.ts';
import { createProgramToken, listProgramTokens, revokeProgramToken } from '../program-tokens.ts';

const POLL_MS = 50;
const CONNECTION = ['url', 'token'];

type Verb = {
  /** The options that it takes, besides those of every verb; and whether it takes a second word. */
  options: string[];
  word?: true;
  run(context: CommandContext): Promise<void>;
};

const VERBS: Record<string, Verb> = {
  '': { options: [], run: print },
  rotate: { options: [], run: rotate },
  create: { options: ['name', 'app', 'tools', 'expires', ...CONNECTION], run: createProgramToken },
  ls: { options: CONNECTION, run: listProgramTokens },
  revoke: { options: CONNECTION, word: true, run: revokeProgramToken },
};

export async function run(context: CommandContext): Promise<void> {
  const { args } = context;
  const name = args.optionalAt(0) ?? '';
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (verb === undefined)
    throw new UsageError(`"${name}" is not a verb.`, {
      command: 'token',
      hint: `There is: ${Object.keys(VERBS).filter(Boolean).join(', ')}`,
    });
  const extra = verb.word ? undefined : args.optionalAt(1);
  if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`, { command: 'token' });
  for (const option of new Set(Object.values(VERBS).flatMap(({ options }) => options))) {
    if (!args.has(option) || verb.options.includes(option)) continue;
    throw new UsageError(`--${option} is not for "${`svc token ${name}`.trim()}".`, { command: 'token' });
  }
  await verb.run(context);
}

async function print(context: CommandContext): Promise<void> {
  const { terminal, dataDirectory } = context;
  const path = new Layout(dataDirectory).token;
  const token = await readToken(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    const shown = shortPath(dataDirectory, context);
    throw new CommandError(
      `There is no token in ${shown}.`,
      'The first start of a gateway creates it: svc serve. For another directory: --data-dir',
    );
  });
  terminal.answer({ token, path }, () => terminal.line(token));
}

async function rotate({ terminal, dataDirectory }: CommandContext): Promise<void> {
  const path = new Layout(dataDirectory).token;
  const token = await rotateToken(path);
  const taken = await isTaken(dataDirectory, token);
  terminal.answer({ token, path, taken }, () => {
    terminal.line(token);
    terminal.note(
      taken
        ? 'The running gateway takes it; the old token is void, and browsers have to sign in again.'
        : 'No gateway is running; the next one takes it.',
    );
    terminal.note('Tokens for programs stay as they are: svc token ls');
  });
}

/** Waits until the running gateway answers to the new token; false when none is running. */
async function isTaken(dataDirectory: string, token: string): Promise<boolean> {
  const daemon = readDaemonFile(dataDirectory);
  if (daemon === null) return false;
  const client = new Client({ url: daemon.url, urlFrom: 'the running gateway', token, tokenFrom: 'the new token' });
  const until = Date.now() + LIMITS.childStartMs;
  for (;;) {
    try {
      await client.get('/svc/_apps', LIMITS.helloMs);
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
    await sleep(POLL_MS);
  }
}
