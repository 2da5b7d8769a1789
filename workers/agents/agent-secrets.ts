/** Takes an agent's secrets out of what it says and of messages about it: programs and servers repeat keys. Pure. */
import type { RunnerEvent, RunnerSpec } from '../../protocol/agents/agents.ts';
import { Redactor } from '../../protocol/text/redactor.ts';

const SECRET = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL/i;
/** Shorter values occur in unrelated texts. */
const MIN_CHARS = 8;

/** For the key of the runner, each of its variables that is called like a secret, and `token`. */
export function secretsOf({ env, apiKey, keyVariable }: RunnerSpec, token = ''): Redactor {
  const secrets = Object.entries(env).filter(([name]) => name === keyVariable || SECRET.test(name));
  secrets.push(['key', apiKey ?? ''], ['token', token]);
  const redactor = new Redactor();
  redactor.hide(secrets.filter(([, value]) => value.length >= MIN_CHARS));
  return redactor;
}

type Delta = Extract<RunnerEvent, { delta: string }>;

/** Takes them out of the events of a turn. A piece of text that may be the beginning of one waits for the next piece. */
export class EventSecrets {
  readonly #redactor: Redactor;
  #held: Delta | null = null;

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  /** The events to take for this one. */
  clean(event: RunnerEvent): RunnerEvent[] {
    if (this.#redactor.idle) return [event];
    if (!('delta' in event)) return [...this.rest(), this.#whole(event)];
    const before = this.#held?.type === event.type ? this.#held.delta : '';
    const rest = before === '' ? this.rest() : [];
    const text = this.#redactor.text(before + event.delta);
    const end = text.length - this.#redactor.pending(text);
    this.#held = end < text.length ? { ...event, delta: text.slice(end) } : null;
    return end > 0 ? [...rest, { ...event, delta: text.slice(0, end) }] : rest;
  }

  /** What waits still, when no more of it comes. */
  rest(): RunnerEvent[] {
    const held = this.#held;
    this.#held = null;
    return held === null ? [] : [held];
  }

  #whole(event: RunnerEvent): RunnerEvent {
    let json: Buffer;
    try {
      json = Buffer.from(JSON.stringify(event));
    } catch {
      // JSON cannot hold it, so it is cut later.
      return event;
    }
    const clean = this.#redactor.json(json);
    return clean === json ? event : (JSON.parse(clean.toString()) as RunnerEvent);
  }
}
