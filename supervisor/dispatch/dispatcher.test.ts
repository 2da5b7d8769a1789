import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import type { Exchange } from '../edge/edge.ts';
import { ADMIN } from '../http/access/callers.ts';
import { answerTool } from '../routes/app/tools-routes.ts';
import type { Call } from '../tree/actor/call.ts';
import { Dispatcher, type DispatcherOptions, type RecordedSink, type Request, type Target } from './dispatcher.ts';
import type { Idempotency } from './idempotency.ts';
import type { Scopes } from './scope.ts';

/** An action whose calls end as `end` says. */
const targetOf = (end: (call: Call) => void): Target =>
  ({
    app: { id: 'notes', key: 'notes', actor: () => ({ submit: end }) },
    kind: 'action',
    tool: { name: 'add', writes: [] },
  }) as unknown as Target;
const NONE: Scopes = { of: (id) => assert.fail(`"${id}" is asked for`), ids: async () => [] };
const REQUEST = { body: Buffer.alloc(0), traceId: () => '', source: 'handler', caller: { kind: 'admin' } } as const;

function aDispatcher(idempotency: Partial<Idempotency> = {}): Dispatcher {
  return new Dispatcher({
    changes: { emit: () => {}, reset: () => {} },
    commits: { acknowledging: () => {} },
    idempotency: { claim: async () => null, record: async () => {}, release: async () => {}, ...idempotency },
    tracing: null,
    config: { queryTimeoutMs: 10, actionTimeoutMs: 10 },
  } as unknown as DispatcherOptions);
}

const broken = (): never => {
  throw new TypeError('the answer cannot be sent');
};

for (const [what, end] of [
  ['result', (call: Call) => call.succeed(200, Buffer.from('1'), 0)],
  ['error', (call: Call) => call.fail(new SvcError('OVERLOADED', 'Too many.'))],
] as const) {
  test(`the caller of an action with a key learns that its ${what} cannot be sent`, async () => {
    const told = await new Promise<unknown>((resolve, reject) => {
      const sink: RecordedSink = {
        answerOf: (status, body) => ({ status, body: Buffer.from(body) }),
        errorOf: () => broken(),
        recorded: broken,
        failed: broken,
        faulted: resolve,
      };
      aDispatcher()
        .remember(targetOf(end), { caller: 'admin', key: 'key' }, {}, REQUEST as Request, sink)
        .catch(reject);
    });
    assert.equal((told as Error).message, 'the answer cannot be sent');
  });
}

for (const [code, attempts, done] of [
  ['HANDLER_ERROR', 1, 'record'],
  ['STORAGE_UNAVAILABLE', 1, 'leave'],
  ['STORAGE_UNAVAILABLE', 0, 'release'],
  ['STORAGE_FULL', 1, 'release'],
] as const) {
  test(`the key of an action that failed with ${code} after ${attempts} runs: ${done}`, async () => {
    const asked: string[] = [];
    const note = (what: string) => async () => void asked.push(what);
    const idempotency = { record: note('record'), release: note('release'), leave: () => void asked.push('leave') };
    const end = (call: Call): void => {
      call.attempts = attempts;
      call.fail(new SvcError(code, 'It failed.'));
    };
    await new Promise<void>((resolve, reject) => {
      const sink: RecordedSink = {
        answerOf: (status, body) => ({ status, body: Buffer.from(body) }),
        errorOf: ({ status }) => ({ status, body: Buffer.alloc(0) }),
        recorded: () => resolve(),
        failed: () => resolve(),
        faulted: reject,
      };
      const own = { caller: 'admin', key: 'key' };
      aDispatcher(idempotency)
        .remember(targetOf(end), own, {}, REQUEST as Request, sink)
        .catch(reject);
    });
    assert.deepEqual(asked, [done]);
  });
}

test('a description that cannot be sent is answered with an error', async () => {
  const answer = await new Promise<number>((resolve) => {
    const exchange = {
      readBody: (_limit: number, onBody: (body: Buffer) => void) => onBody(Buffer.from('{}')),
      send: (status: number) => (status === 200 ? broken() : resolve(status)),
    };
    const parts = { dispatcher: aDispatcher(), log: pino({ enabled: false }) };
    answerTool(parts, NONE, exchange as unknown as Exchange, 'svc_describe', ADMIN);
  });
  assert.equal(answer, 500);
});
