/** `ctx.state`: what an automation remembers from one run to the next, JSON values by key (decisions, section 6). */

import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { survive } from '../../outlive-writer.ts';

/** Which automation. */
export type AutomationName = { app: string; id: string };

const SET = `INSERT INTO automation_state (app_id, automation_id, key, value)
  SELECT @app, @id, @key, @value WHERE EXISTS (SELECT 1 FROM automation_state WHERE app_id = @app AND automation_id = @id AND key = @key)
    OR (SELECT count(*) FROM automation_state WHERE app_id = @app AND automation_id = @id) < @most
  ON CONFLICT (app_id, automation_id, key) DO UPDATE SET value = excluded.value`;

/** Every method rejects with `BAD_REQUEST` for a key that is none. */
export class AutomationState {
  readonly #db: DbClient;

  constructor(db: DbClient) {
    this.#db = db;
  }

  /** The value, or undefined when there is none. */
  async get({ app, id }: AutomationName, key: unknown): Promise<unknown> {
    const name = checkKey(key);
    const sql = 'SELECT value FROM automation_state WHERE app_id = ? AND automation_id = ? AND key = ?';
    const row = await survive(() => this.#db.get(sql, [app, id, name]));
    return row === null ? undefined : JSON.parse(String(row.value));
  }

  /** Stored durably when it resolves. Rejects with `PAYLOAD_TOO_LARGE` over `LIMITS.stateValueBytes` or `LIMITS.stateKeys`. */
  async set({ app, id }: AutomationName, key: unknown, value: unknown): Promise<void> {
    const name = checkKey(key);
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) throw new SvcError('BAD_REQUEST', 'The value must be JSON.', { path: 'value' });
    if (Buffer.byteLength(text) > LIMITS.stateValueBytes) {
      throw new SvcError('PAYLOAD_TOO_LARGE', `A value may have at most ${LIMITS.stateValueBytes} bytes of JSON.`, {
        path: 'value',
      });
    }
    const { changes } = await survive(() =>
      this.#db.run(SET, { app, id, key: name, value: text, most: LIMITS.stateKeys }),
    );
    if (changes === 0) {
      throw new SvcError('PAYLOAD_TOO_LARGE', `An automation may have at most ${LIMITS.stateKeys} keys; delete some.`, {
        path: 'key',
      });
    }
  }

  /** No error when there is no such key. */
  async delete({ app, id }: AutomationName, key: unknown): Promise<void> {
    const name = checkKey(key);
    const sql = 'DELETE FROM automation_state WHERE app_id = ? AND automation_id = ? AND key = ?';
    await survive(() => this.#db.run(sql, [app, id, name]));
  }
}

function checkKey(key: unknown): string {
  if (typeof key === 'string' && key !== '' && Buffer.byteLength(key) <= LIMITS.stateKeyBytes) return key;
  throw new SvcError('BAD_REQUEST', `A key must be a string of 1 to ${LIMITS.stateKeyBytes} bytes.`, { path: 'key' });
}
