/**
 * A host of a gateway whose runner streams text at a steady pace, for `turns`: takes the arguments of `svc serve` that the bench
 * gives, and writes the same first line. A message is `<pieces> <milliseconds from one to the next>`; each piece is the time.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { serve } from '../dist/index.js';

const { values } = parseArgs({
  options: {
    'data-dir': { type: 'string' },
    port: { type: 'string' },
    config: { type: 'string' },
    json: { type: 'boolean' },
  },
  allowPositionals: true,
});

async function* conversationRunner({ message, signal }) {
  const [pieces, everyMs] = message.split(' ').map(Number);
  const from = performance.now();
  for (let i = 0; i < pieces && !signal.aborted; i++) {
    // By the clock: a late piece does not make those after it late.
    const at = from + i * everyMs;
    await new Promise((resolve) => setTimeout(resolve, at - performance.now()));
    yield { type: 'assistant.delta', delta: `${performance.timeOrigin + performance.now()} ` };
  }
  yield { type: 'final', text: 'done' };
}

const config = JSON.parse(readFileSync(values.config, 'utf8'));
const dataDir = values['data-dir'];
const { url, token, pid } = await serve({ ...config, dataDir, port: Number(values.port), conversationRunner });
console.log(JSON.stringify({ event: 'ready', url, token, pid, dataDir }));
