import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../servers.ts';
import { FAULTS, putInto } from './faults.ts';

test('each seeded fault can be put into its file, and its tests are there', () => {
  assert.equal(new Set(FAULTS.map(({ name }) => name)).size, FAULTS.length, 'a name is there twice');
  for (const fault of FAULTS) {
    const source = readFileSync(join(ROOT, fault.file), 'utf8');
    assert.notEqual(putInto(source, fault), source, fault.name);
    assert.ok(fault.tests.length > 0, fault.name);
    for (const path of fault.tests) assert.ok(existsSync(join(ROOT, path)), `${fault.name}: ${path}`);
  }
});

test('a text that is gone, or there twice, is an error', () => {
  const [fault] = FAULTS;
  assert.ok(fault);
  assert.throws(() => putInto('something else', fault), { name: 'ListError', message: /0 times in/ });
  assert.throws(() => putInto(fault.text + fault.text, fault), { name: 'ListError', message: /2 times in/ });
});
