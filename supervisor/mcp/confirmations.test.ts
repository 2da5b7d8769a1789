import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { type Asker, asksByForm, Confirmations, InputRequired } from './confirmations.ts';

const ASKER: Asker = { client: 'token a', path: '/svc/notes/_mcp', session: 's' };
const ASKED = { app: 'notes', action: 'clear', detail: 'Deletes all notes.' };

/** Asks in a stream whose messages the test sees. */
function ask(confirmations: Confirmations, signal?: AbortSignal) {
  const told: { id?: string; method: string; params: { message?: string; requestId?: string } }[] = [];
  const asking = confirmations.byRequest(ASKER, (message) => void told.push(message as never))(ASKED, signal);
  return { told, asking };
}

test('a client is asked by a request, whose answer only it can give, once', async () => {
  const confirmations = new Confirmations();
  for (const [reply, isAllowed] of [
    [{ result: { action: 'accept' } }, true],
    [{ result: { action: 'decline' } }, false],
    [{ result: { action: 'cancel' } }, false],
    [{ result: 'accept' }, false],
    [{ error: { code: -1 } }, false],
  ] as const) {
    const { told, asking } = ask(confirmations);
    assert.match(told[0]?.params.message ?? '', /^Run "clear" of "notes"\?\nDeletes all notes\.$/);
    const answer = { jsonrpc: '2.0', id: told[0]?.id, ...reply };
    for (const other of [
      { ...ASKER, client: 'token b' },
      { ...ASKER, path: '/svc/other/_mcp' },
      { ...ASKER, session: undefined },
    ])
      assert.equal(confirmations.take(other, answer), false);
    assert.equal(confirmations.take(ASKER, answer), true);
    assert.equal(confirmations.take(ASKER, answer), false);
    if (isAllowed) await asking;
    else await assert.rejects(asking, { code: 'NOT_CONFIRMED', message: /refused/ });
    assert.equal(told.length, 1);
  }
});

test('a question without an answer in time, or whose call was given up, is withdrawn at the client', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const confirmations = new Confirmations();
    const left = new AbortController();
    for (const [{ told, asking }, end] of [
      [ask(confirmations), () => mock.timers.tick(LIMITS.permissionMs)],
      [ask(confirmations, left.signal), () => left.abort()],
      [ask(confirmations, AbortSignal.abort()), () => {}],
    ] as const) {
      const refused = assert.rejects(asking, { code: 'NOT_CONFIRMED', message: /nobody answered/ });
      end();
      await refused;
      const [question, withdrawn] = told;
      assert.deepEqual([withdrawn?.method, withdrawn?.params.requestId], ['notifications/cancelled', question?.id]);
      assert.equal(confirmations.take(ASKER, { id: question?.id, result: { action: 'accept' } }), false);
    }
  } finally {
    mock.timers.reset();
  }
});

test('a call that asks is given up by its own client', () => {
  const confirmations = new Confirmations();
  let given = 0;
  const done = confirmations.asking(ASKER, 7, () => void given++);
  const cancelled = (requestId: unknown) => ({ method: 'notifications/cancelled', params: { requestId } });
  assert.equal(confirmations.take(ASKER, cancelled(8)), false);
  assert.equal(confirmations.take(ASKER, cancelled('7')), false);
  assert.equal(confirmations.take({ ...ASKER, client: 'token b' }, cancelled(7)), false);
  assert.deepEqual([confirmations.take(ASKER, cancelled(7)), given], [true, 1]);
  done();
  assert.equal(confirmations.take(ASKER, cancelled(7)), false);
});

test('a question in a result is good for some minutes, and there are not more of them than may be', async () => {
  mock.timers.enable({ apis: ['Date'] });
  try {
    const confirmations = new Confirmations();
    const call = { name: 'clear', args: {}, responses: { confirm: { action: 'accept' } } };
    const ask = async (): Promise<unknown> => {
      const asked = confirmations.byResult(ASKER, { ...call, state: undefined })(ASKED);
      const error = await asked.catch((error: unknown) => error);
      assert.ok(error instanceof InputRequired);
      return error.result.requestState;
    };
    const answer = (state: unknown) => confirmations.byResult(ASKER, { ...call, state })(ASKED);
    const isRefused = (state: unknown) =>
      assert.rejects(answer(state), { code: 'INVALID_INPUT', path: '/requestState' });
    await answer(await ask());
    const late = await ask();
    mock.timers.tick(LIMITS.permissionMs);
    await isRefused(late);
    const first = await ask();
    for (let n = 1; n < LIMITS.mcpQuestions; n++) await ask();
    await answer(first);
    const second = await ask();
    for (let n = 0; n < LIMITS.mcpQuestions; n++) await ask();
    await isRefused(second);
    for (const state of ['made up', 7, null, {}]) await isRefused(state);
  } finally {
    mock.timers.reset();
  }
});

test('a client can ask if it shows forms, which it does by default', () => {
  for (const [capabilities, can] of [
    [{ elicitation: {} }, true],
    [{ elicitation: { form: {} } }, true],
    [{ elicitation: { form: {}, url: {} } }, true],
    [{ elicitation: { url: {} } }, false],
    [{ elicitation: true }, false],
    [{}, false],
    [undefined, false],
  ] as const)
    assert.equal(asksByForm(capabilities), can, JSON.stringify(capabilities));
});
