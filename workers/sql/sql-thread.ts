/** Runs statements of callers, each on a connection of its own. The thread of a process for SQL; entry of dist/sql-thread.cjs. */
import { parentPort } from 'node:worker_threads';
import { damageCode, type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import { type FrameOf, Kind, SqlStatus } from '../../protocol/wire/frames.ts';
import { openLink } from '../../protocol/wire/link.ts';
import { loadSqlite } from '../../storage/sqlite.ts';
import { parseRequest } from '../handler/call-request.ts';
import { installJsonRules, queryAnswer } from '../handler/result.ts';
import { ReadOnlyDatabase, runSql, type SqlAnswer } from './sql-tool.ts';

/** `ready` once; then an answer for each statement. */
export type FromThread = 'ready' | FrameOf<'result'> | FrameOf<'error'>;

const NOTHING = new Uint8Array(0);

async function run([, id, { body, dataFile, migrated, writer, maxResultBytes }]: FrameOf<'sql'>): Promise<FromThread> {
  const began = performance.now();
  const elapsed = () => performance.now() - began;
  const database = new ReadOnlyDatabase(dataFile, migrated);
  const client =
    writer &&
    new DbClient((handlers, connectionId, socket = writer.socket) =>
      openLink(socket, writer.ticket, handlers, connectionId),
    );
  let answer: SqlAnswer | null = null;
  try {
    answer = await runSql(parseRequest(body), database, client);
    const json = answer.status === SqlStatus.writes ? NOTHING : queryAnswer(answer.value, maxResultBytes).body;
    return [Kind.result, id, answer.status, json, elapsed()];
  } catch (error) {
    const failed = bodyOf(error);
    if (answer?.status !== SqlStatus.wrote) return [Kind.error, id, failed, elapsed()];
    const unanswerable = new SvcError(
      'HANDLER_ERROR',
      `The statement was run, but cannot be answered. ${failed.message}`,
    );
    return [Kind.error, id, unanswerable.toBody(), elapsed(), true];
  } finally {
    client?.end();
    database.close();
  }
}

function bodyOf(error: unknown): ErrorBody {
  if (error instanceof SvcError) return error.toBody();
  return { code: damageCode(error) ?? 'INTERNAL', message: (error as Error).message };
}

if (parentPort === null) throw new Error('sql-thread.cjs is started by a process for SQL, as a thread.');
const port = parentPort;
// Saves the first statement the time.
loadSqlite();
installJsonRules();
port.on('message', (frame: FrameOf<'sql'>) => void run(frame).then((answer) => port.postMessage(answer)));
port.postMessage('ready' satisfies FromThread);
