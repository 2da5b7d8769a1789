/** `svc token`: prints the access token of a data directory, or replaces it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { Layout } from '../../storage/layout.ts';
import { readToken, rotateToken } from '../../storage/token.ts';
import { Client } from '../client.ts';
import type { CommandContext } from '../command.ts';
import { readDaemonFile, shortPath } from '../data-directory.ts';
import { CommandError, GatewayError, UnreachableError, UsageError } from '../failure.ts';

const POLL_MS = 50;

export async function run(context: CommandContext): Promise<void> {
  const { args, terminal, dataDirectory } = context;
  const path = new Layout(dataDirectory).token;
  const verb = args.optionalAt(0);
  if (verb === undefined) {
    const token = await readToken(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      const shown = shortPath(dataDirectory, context);
      throw new CommandError(
        `There is no token in ${shown}.`,
        'It is made when a gateway first starts: svc serve. Another place: --data-dir',
      );
    });
    terminal.answer({ token, path }, () => terminal.line(token));
    return;
  }
  if (verb !== 'rotate')
    throw new UsageError(`"${verb}" is not something to do with a token.`, {
      command: 'token',
      hint: 'There is: svc token rotate',
    });
  const token = await rotateToken(path);
  const taken = await isTaken(dataDirectory, token);
  terminal.answer({ token, path, taken }, () => {
    terminal.line(token);
    terminal.note(
      taken
        ? 'The running gateway takes it; the old token is void, and browsers have to sign in again.'
        : 'No gateway is running; the next one takes it.',
    );
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
          'The new token is written, but the running gateway does not take it.',
          'Restart it, then look with: svc doctor',
        );
    }
    await sleep(POLL_MS);
  }
}
