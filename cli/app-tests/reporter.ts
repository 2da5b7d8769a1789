/** A reporter of node:test for programs (`dist/test-reporter.js`): one line of JSON for each test that ended. */
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';
import type { TestResult } from '../../protocol/answer-types.ts';

// biome-ignore lint/style/noDefaultExport: Node requires it
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of events) {
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue;
    const { name, file = null, line = null, details, skip } = event.data;
    // The error of a suite or a file is reported for its tests.
    if (details.type === 'suite') continue;
    const error = 'error' in details ? details.error : undefined;
    const state = error !== undefined ? 'failed' : skip ? 'skipped' : 'passed';
    const result: TestResult = { name, file, line, state, ms: Math.round(details.duration_ms) };
    yield `${JSON.stringify(error === undefined ? result : { ...result, error: textOf(error) })}\n`;
  }
}

function textOf({ cause }: Error): string {
  return cause instanceof Error ? (cause.stack ?? String(cause)) : inspect(cause);
}
