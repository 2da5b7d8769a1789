/** Asks a node of a cluster as a client does that is told to come back: buckets may be on their way. */
import { setTimeout as wait } from 'node:timers/promises';
import type { TestGateway } from './gateway.ts';
import { LONG_MS } from './waiting.ts';

const AGAIN_MS = 50;

/** The same gateway, whose `call` asks again where the answer is 503. */
export function patient(gateway: TestGateway): TestGateway {
  const call: TestGateway['call'] = async (...asked) => {
    const until = performance.now() + LONG_MS;
    for (;;) {
      const answer = await gateway.call(...asked);
      if (answer.status !== 503 || performance.now() > until) return answer;
      await wait(AGAIN_MS);
    }
  };
  return Object.create(gateway, { call: { value: call } });
}
