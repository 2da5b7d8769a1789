import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import { standIn } from '../../testing/stand-in.ts';
import type { Exporter } from './otlp-exporter.ts';
import { Span } from './span.ts';
import { SpanQueue } from './span-queue.ts';

/** A collector that answers when it is told to. */
class Collector implements Exporter {
  readonly batches: number[] = [];
  readonly #answers: ((error?: Error) => void)[] = [];
  closed = false;

  send(spans: readonly Span[]): Promise<void> {
    this.batches.push(spans.length);
    return new Promise((resolve, reject) => {
      this.#answers.push((error) => (error === undefined ? resolve() : reject(error)));
    });
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  async answer(error?: Error): Promise<void> {
    this.#answers.shift()?.(error);
    await new Promise(setImmediate);
  }
}

const warnings: unknown[] = [];
const log = standIn<Logger>({ warn: (...said: unknown[]) => void warnings.push(said) });
const span = () => new Span('x', 'internal', { traceId: 'a', parentId: null }, () => {});
const fill = (queue: SpanQueue, count: number) => {
  for (let i = 0; i < count; i++) queue.add(span());
};

test('one batch is under way at a time; spans without room are dropped and counted', async () => {
  const collector = new Collector();
  const queue = new SpanQueue(collector, log);
  fill(queue, LIMITS.spanBatch + LIMITS.spanQueue + 7);
  assert.deepEqual(collector.batches, [LIMITS.spanBatch]);
  assert.deepEqual([queue.sent, queue.dropped], [0, 7]);
  await collector.answer();
  assert.deepEqual(collector.batches, [LIMITS.spanBatch, LIMITS.spanBatch]);
  assert.deepEqual([queue.sent, queue.dropped], [LIMITS.spanBatch, 7]);
});

test('spans that the collector refuses are dropped, counted, and reported once', async () => {
  const collector = new Collector();
  const queue = new SpanQueue(collector, log);
  warnings.length = 0;
  fill(queue, 3 * LIMITS.spanBatch);
  for (let i = 0; i < 2; i++) await collector.answer(new Error('503'));
  assert.deepEqual([queue.sent, queue.dropped, warnings.length], [0, 2 * LIMITS.spanBatch, 1]);
  await collector.answer();
  assert.equal(queue.sent, LIMITS.spanBatch);
});

test('at the end waiting spans are sent, for a limited time', async (t) => {
  const collector = new Collector();
  const queue = new SpanQueue(collector, log);
  fill(queue, 5);
  const closing = queue.close();
  await collector.answer();
  await closing;
  assert.deepEqual([queue.sent, queue.dropped, collector.closed], [5, 0, true]);

  t.mock.timers.enable({ apis: ['setTimeout'] });
  const silent = new SpanQueue(new Collector(), log);
  fill(silent, LIMITS.spanBatch + 2);
  const ended = silent.close();
  t.mock.timers.tick(LIMITS.spansEndMs);
  await ended;
  fill(silent, 1);
  assert.equal(silent.dropped, 3);
});
