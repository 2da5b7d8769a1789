/**
 * Runs the tests of many apps in one process (`node --test`). `SVC_TESTED` has, for each app, the data of `svc test` and
 * its test files.
 */
import { test } from 'node:test';

const loaded = Promise.resolve().then(async () => {
  for (const { files, ...prepared } of JSON.parse(process.env.SVC_TESTED)) {
    test(`it begins with ${prepared.app}`, () => {
      process.env.SVC_TEST = JSON.stringify(prepared);
    });
    for (const file of files) await import(file);
  }
});
// Until all tests are there, none may end: the harness ends with the last one.
test('the test files load', () => loaded);
