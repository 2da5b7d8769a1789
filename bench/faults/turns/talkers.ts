/** Clients that talk with the agent of an app under faults, and remember what they were told. */

import { Layout } from '../../../storage/layout.ts';
import { historyOf, send, type TurnEventSeen, textOf, turnOf, typesOf } from '../../../testing/chat.ts';
import { Client, Counts } from '../../../testing/clients.ts';
import { reading } from '../../../testing/databases.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import type { Random } from '../../../testing/random.ts';

const APP = 'todos';
const AGAIN_MS = 100;

export class Talkers extends Client {
  /** How turns ended. */
  readonly outcomes = new Counts();
  /** Messages whose turn was answered with a stream, once at least. */
  readonly #accepted = new Set<string>();
  /** Messages for which the agent was told that its todo is stored. */
  readonly #added = new Set<string>();
  readonly #windows: string[];
  #count = 0;

  constructor(gateway: TestGateway, windows: number, random: Random) {
    super(gateway, random);
    this.#windows = Array.from({ length: windows }, (_, i) => `w${i}`);
    for (const window of this.#windows) {
      const own = random.fork();
      this.repeat(() => this.#talk(window, own), [0, 100], own);
    }
  }

  get accepted(): number {
    return this.#accepted.size;
  }

  /** Each message that was accepted is in its window once, and so is what its agent wrote; nothing is there twice or under way. */
  async verify(): Promise<string[]> {
    const said = new Counts();
    const faults: string[] = [];
    for (const window of this.#windows) {
      for (const { kind, text, state } of await this.#history(window)) {
        if (kind !== 'user') continue;
        const key = keyIn(text);
        said.count(key);
        if (state === 'running' || state === 'queued') faults.push(`The turn of ${key} is still ${state}.`);
      }
    }
    for (const key of this.#accepted) if (!said.has(key)) faults.push(`The message ${key} was accepted and is lost.`);
    for (const [key, times] of said) if (times > 1) faults.push(`The message ${key} is there ${times} times.`);
    return faults;
  }

  /** All rows of a window: an answer has the latest ones before a row. */
  async #history(window: string) {
    const rows = await historyOf(this.gateway, APP, window);
    while (rows[0]?.seq > 1) {
      const path = `/svc/${APP}/_chat/windows/${window}/history?before=${rows[0].seq}`;
      rows.unshift(...(await this.gateway.call('GET', path)).json);
    }
    return rows;
  }

  /** The same of what agents wrote, once the gateway has stopped. */
  verifyWrites(): string[] {
    const sql = 'SELECT title, count(*) FROM todos GROUP BY title';
    const path = new Layout(this.gateway.dataDir).app(APP).data;
    const stored = new Map(reading(path, (db) => db.prepare(sql).raw().all()) as [string, number][]);
    return [
      ...[...stored].filter(([, times]) => times > 1).map(([key, times]) => `The turn of ${key} ran ${times} times.`),
      ...[...this.#added].filter((key) => !stored.has(key)).map((key) => `What the agent wrote for ${key} is lost.`),
    ];
  }

  /** One message, sent again under its key until its turn has been read to its end. */
  async #talk(windowId: string, random: Random): Promise<void> {
    const key = `k-${++this.#count}`;
    const message = script(key, random);
    const detach = random.next() < 0.5;
    const body = { windowId, message, idempotencyKey: key, detach };
    let last = '';
    const events = await this.definite(`The turn of ${key}`, AGAIN_MS, async () => {
      try {
        const stream = await send(this.gateway, APP, body);
        this.#accepted.add(key);
        return await turnOf(stream);
      } catch (error) {
        // Refused, or cut by a death of the supervisor.
        last = (error as Error).message;
        return null;
      }
    });
    if (events !== null) this.#judge(key, events);
    else this.violations.push(`The turn of ${key} was answered last: ${last.slice(0, 500)}`);
  }

  #judge(key: string, events: TurnEventSeen[]): void {
    const types = typesOf(events);
    const times = (type: string) => types.filter((one) => one === type).length;
    const say = (what: string) => this.violations.push(`The turn of ${key} ${what}: ${types.join(' ')}`);
    if (events.some(({ id }, i) => id !== i + 1)) say('has events that are not numbered one by one');
    if (types[0] !== 'assistant.start' || times('assistant.start') > 1) say('does not begin once');
    if (times('end') !== 1 || times('final') > 1) say('does not end once');
    const tools = this.#tools(key, events);
    if (tools !== null) say(tools);
    if (times('final') === 1 && !textOf(events).startsWith(`hello ${key}`)) say('has the text of another');
    const failure = events.find(({ type }) => type === 'error');
    this.outcomes.count(failure ? `${failure.code}` : (types.at(-2) ?? 'nothing'));
    if (times('final') === 1) this.step();
  }

  /** What is wrong with the tools of a turn, if anything. */
  #tools(key: string, events: TurnEventSeen[]): string | null {
    const open = new Set<string>();
    for (const { type, toolCallId, toolName, ok } of events) {
      if (type === 'tool.start') open.add(toolCallId);
      if (type !== 'tool.result') continue;
      if (!open.delete(toolCallId)) return 'has a result without a start';
      if (ok && /add/.test(toolName)) this.#added.add(key);
    }
    return open.size > 0 ? 'has a tool without a result' : null;
  }
}

/** What the scripted agent does: some leave shells behind, most write to the app, all take a moment. */
function script(key: string, random: Random): string {
  const steps = [`say hello ${key}`];
  if (random.next() < 0.3) steps.push('sleep 1000', 'daemon 1000');
  if (random.next() < 0.8) steps.push(`call add ${JSON.stringify({ title: key })}`);
  steps.push(`wait ${random.between(0, 150)}`, 'say done');
  return steps.join('\n');
}

function keyIn(text: string): string {
  return /^say hello (\S+)/.exec(text)?.[1] ?? text;
}
