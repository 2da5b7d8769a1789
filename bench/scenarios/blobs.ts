/** A large file of an app up and down: how fast, and how much more memory all processes take meanwhile. */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { memoryOfAll } from '../../testing/processes.ts';
import { APP, benchApp, incompressible } from '../bench-app.ts';
import { type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { fact, timed } from '../measurements.ts';
import { median } from '../statistics.ts';

const MiB = 2 ** 20;
const FILE_BYTES = { full: 100 * MiB, smoke: 8 * MiB };
const ROUNDS = { full: 5, smoke: 1 };
const LOOK_MS = 20;
const SETTLE_MS = 1000;
const PATH = `/svc/${APP}/_blobs`;

export const blobsScenario: Scenario = {
  name: 'blobs',
  question:
    'How long does a file of 100 MiB take up and down, and how much more memory do all processes take meanwhile?',
  run: async (context) => {
    const size = sized(context, FILE_BYTES);
    const rounds = sized(context, ROUNDS);
    const up: Passage[] = [];
    const down: Passage[] = [];
    const slow: Passage[] = [];
    await withDaemon(context, async (daemon) => {
      await daemon.install(APP, benchApp());
      await daemon.readNote(APP);
      for (let round = 0; round < rounds; round++) {
        context.progress(`round ${round + 1} of ${rounds}`);
        const piece = incompressible(MiB, round);
        const file = Buffer.concat(Array.from({ length: size / MiB }, () => piece));
        const address = `${PATH}/${createHash('sha256').update(file).digest('hex')}`;
        up.push(await watched(daemon, () => daemon.request('PUT', PATH, file, 'application/octet-stream')));
        down.push(await watched(daemon, () => receive(daemon, address, size, 0)));
        // Slower than the file is read, so that it would pile up if nothing held it back.
        slow.push(await watched(daemon, () => receive(daemon, address, size, 5)));
        await daemon.request('DELETE', address);
      }
    });
    const what = `${size / MiB} MiB`;
    const of = `of ${rounds}; PSS of all processes, looked at every ${LOOK_MS} ms`;
    return [
      fact(`upload of ${what}`, median(up.map(({ ms }) => ms)), 'ms', `median of ${rounds}, until it is on disk`),
      fact(`download of ${what}`, median(down.map(({ ms }) => ms)), 'ms', `median of ${rounds}`),
      fact('more memory while it is uploaded', most(up), 'MiB', `most ${of}`),
      fact('more memory while it is downloaded', most(down), 'MiB', `most ${of}`),
      fact('more memory while a slow reader downloads it', most(slow), 'MiB', `most ${of}`),
    ];
  },
};

type Passage = { ms: number; more: number };

const most = (passages: Passage[]): number => Math.max(...passages.map(({ more }) => more)) / MiB;

/** How long it took, and the most memory in bytes that there was more than before. */
async function watched(daemon: Daemon, work: () => Promise<unknown>): Promise<Passage> {
  await daemon.refresh();
  await wait(SETTLE_MS);
  const before = memoryOfAll(daemon.processes).pss;
  let highest = before;
  const looking = setInterval(() => {
    highest = Math.max(highest, memoryOfAll(daemon.processes).pss);
  }, LOOK_MS);
  try {
    return { ms: await timed(work), more: highest - before };
  } finally {
    clearInterval(looking);
  }
}

/** Waits `pauseMs` after each part. */
async function receive(daemon: Daemon, address: string, size: number, pauseMs: number): Promise<void> {
  const { body } = await daemon.request('GET', address);
  let received = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    received += chunk.length;
    if (pauseMs > 0) await wait(pauseMs);
  }
  if (received !== size) throw new Error(`${received} of ${size} bytes came.`);
}
