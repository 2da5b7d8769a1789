/** One misbehaving app, called once, and everything that must come of it. */
import type { Answer, TestGateway } from '../../../testing/gateway.ts';
import { eventually, within } from '../../../testing/waiting.ts';
import { type Kind, mendedApp, timeoutOf } from './kinds.ts';
import { actorsOf, processesOf } from './processes.ts';

/** Time above its deadline after which an answer counts as late: room for a machine that is busy. */
export const ANSWER_GRACE_MS = 2_000;
/** Time in which a bad thread must be gone, its cause be named, and the app's other tools answer. */
export const SETTLE_MS = 30_000;
const LOOK_EVERY_MS = 500;

export type Trial = {
  timeoutMs: number;
  /** From the call until its answer, and until the app's other tool answered again. Milliseconds. */
  answeredMs: number;
  recoveredMs: number;
  violations: string[];
};

/** Calls `bad` of `id` with input `n`, judges what happens, and mends the app. */
export async function runTrial(gateway: TestGateway, id: string, kind: Kind, n: number): Promise<Trial> {
  const violations: string[] = [];
  const violated = (what: string): void => void violations.push(`${id}: ${what}`);
  const call = () => callBad(gateway, id, kind, n);

  // Its thread runs, so that the deadline is the handler's alone.
  if (!(await settles(async () => (await gateway.read(id, 'ok', {})).status === 200))) violated('it never answered.');
  const isShared = (await actorsOf(gateway)).some(({ app, place }) => app === id && place === 'commons');
  const startedAt = performance.now();
  const answer = await within(timeoutOf(kind) + SETTLE_MS, call());
  const answeredMs = performance.now() - startedAt;
  if (answer === 'late') {
    violated('the call hung.');
  } else {
    if (answeredMs > timeoutOf(kind) + ANSWER_GRACE_MS) violated(`answered after ${Math.round(answeredMs)} ms.`);
    if ('ok' in kind.answer) {
      if (answer.status !== 200 || !kind.answer.ok.test(answer.text)) violated(`answered ${answer.text.slice(0, 200)}`);
    } else {
      const { code, message } = answer.json.error ?? {};
      if (answer.status !== 500 || code !== 'HANDLER_ERROR' || !kind.answer.error.test(message))
        violated(`answered ${answer.status} ${answer.text.slice(0, 200)}`);
    }
  }

  // Where its time was up in the commons, that thread may have ended because of another app.
  const { ends, log } = isShared && kind.ends?.includes('deadline') ? {} : kind;
  let exit: string | null = null;
  const endsRightly = async () => {
    exit = (await actorsOf(gateway)).find(({ app }) => app === id)?.lastExit ?? null;
    return ends?.some((reason) => exit?.startsWith(`${reason}: `)) ?? false;
  };
  if (ends !== undefined && !(await settles(endsRightly)))
    violated(`its thread did not end for ${ends.join(' or ')}, but: ${exit}.`);
  const cause = log ?? ('error' in kind.answer ? kind.answer.error : null);
  if (cause !== null && !(await settles(() => logSays(gateway, id, cause))))
    violated(`its log says nothing of ${cause}.`);
  if (!(await settles(async () => (await gateway.read(id, 'ok', {})).json.data === 'alive')))
    violated('its other tool did not answer again.');
  const recoveredMs = performance.now() - startedAt;

  const mended = await gateway.upload(id, mendedApp(id, kind));
  const again = await call();
  if (mended.status >= 300 || again.status !== 200 || !again.text.includes('mended'))
    violated(`a mended version did not help at once: ${again.text.slice(0, 200)}`);
  return { timeoutMs: timeoutOf(kind), answeredMs, recoveredMs, violations };
}

/** Calls what takes the writer down again and again, with ever new input, until the app is quarantined. Answers the number of calls; null when it never was. */
export async function untilQuarantined(
  gateway: TestGateway,
  id: string,
  kind: Kind,
  limit: number,
): Promise<number | null> {
  const replaced = async (): Promise<number> =>
    (await processesOf(gateway)).find(({ name }) => name === 'writer')?.restarts ?? 0;
  for (let n = 1; n <= limit; n++) {
    const before = await replaced();
    const answer = await callBad(gateway, id, kind, n);
    if (answer.json.error?.code === 'QUARANTINED') return n;
    // The next call comes when the harm of this one is done: two that wait for the same writer do it once.
    await settles(async () => (await replaced()) > before);
  }
  return null;
}

function callBad(gateway: TestGateway, id: string, { action }: Kind, n: number): Promise<Answer> {
  return action ? gateway.write(id, 'bad', { n }) : gateway.read(id, 'bad', { n });
}

/** Whether it holds while there is time to settle. */
export function settles(holds: () => Promise<boolean>): Promise<boolean> {
  return eventually(SETTLE_MS, holds, LOOK_EVERY_MS);
}

async function logSays(gateway: TestGateway, id: string, cause: RegExp): Promise<boolean> {
  const lines: { msg?: unknown }[] = (await gateway.call('GET', `/svc/_logs?app=${id}&limit=500`)).json;
  return lines.some((line) => cause.test(String(line.msg)) || cause.test(JSON.stringify(line)));
}
