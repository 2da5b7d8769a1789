import assert from 'node:assert/strict';
import test from 'node:test';
import { type ConversationName, parseSessionKey, sessionKey } from './session-key.ts';

test('a session key says whose conversation it is, and is parsed back to it', () => {
  const names: [ConversationName, string][] = [
    [{ kind: 'window', app: 'todos', id: 'w1' }, 'svc-chat:todos:ww1'],
    [{ kind: 'conversation', app: 'todos', id: 'c-1' }, 'svc-chat:todos:cc-1'],
    [{ kind: 'window', app: 'todos', id: '1', draft: 'S1' }, 'svc-draft:S1:todos:w1'],
  ];
  for (const [name, key] of names) {
    assert.equal(sessionKey(name), key);
    assert.deepEqual(parseSessionKey(key), name);
  }
});

test('a text that contains more than a session key is not one', () => {
  const texts = [
    'x svc-chat:todos:w1',
    'svc-chat:todos:w1 ',
    'svc-chat:todos:w1\n',
    'svc-chat:notes:w1 svc-chat:todos:w1',
    'svc-chat:todos:1',
    'svc-chat:_apps:w1',
    'svc-chat:todos:w',
    'svc-chat:todos:w../x',
    `svc-chat:todos:w${'x'.repeat(65)}`,
    'svc-draft:todos:w1',
    'svc-draft::todos:w1',
    '',
  ];
  for (const text of texts) assert.equal(parseSessionKey(text), null, text);
});
