/**
 * Runs the tests of many apps in one process (`node --test`). `SVC_TESTED` has, for each app, the data of `svc test` and
 * its test files.
 */
import { test } from 'node:test';
import { harness } from 'svc/test';

const loaded = Promise.resolve().then(async () => {
  for (const [at, { files, ...prepared }] of JSON.parse(process.env.SVC_TESTED).entries()) {
    test(`it begins with ${prepared.app}`, async (t) => {
      process.env.SVC_TEST = JSON.stringify(prepared);
      // The harness starts the app of the next test early: this takes the one that is still of the app before.
      if (at > 0) await harness(t);
    });
    for (const file of files) await import(file);
  }
});
// Until all tests are there, none may end: the harness ends with the last one.
test('the test files load', () => loaded);
