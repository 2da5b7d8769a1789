/** Replaces the values of secrets in everything that leaves an app by `[secret NAME]` (specification, "Secrets"). */
import { inspect } from 'node:util';
import { LIMITS } from '../limits.ts';

/** One way to write a value, or a line of it. */
type Form = { text: string; name: string };

// Kept as constants: app code in the same thread could replace the built-ins.
const { parse, stringify } = JSON;

/** Characters that every way of writing leaves as they are. */
const PLAIN = /[A-Za-z0-9_.~-]+/g;
const NUMBER = /-?\d[\d.eE+-]*/g;
/** Characters of one text that Node's `console` shows. */
const CONSOLE_CHARS = 10_000;
const LINE_END = /\r\n|\r|\n/;

export class Redactor {
  /** Value → name; the oldest first. */
  readonly #values = new Map<string, string>();
  /** Longest first: a value may be part of another. */
  #forms: Form[] = [];
  /** For each value, bytes that every form of it contains; empty where there are too few. */
  #probes: Buffer[] = [];

  /** There are no values to take out. */
  get idle(): boolean {
    return this.#forms.length === 0;
  }

  /** Former values are still taken out, up to `LIMITS.secretsFormer`: code may hold a value that was replaced. */
  hide(values: Iterable<readonly [name: string, value: string]>): void {
    let current = 0;
    for (const [name, value] of values) {
      current++;
      this.#values.delete(value);
      this.#values.set(value, name);
    }
    for (const value of this.#values.keys()) {
      if (this.#values.size <= current + LIMITS.secretsFormer) break;
      this.#values.delete(value);
    }
    const forms = new Map<string, string>();
    const probes = new Set<string>();
    let linesLeft: number = LIMITS.secretLines;
    for (const [value, name] of [...this.#values].reverse()) {
      const lines = linesOf(value).slice(0, linesLeft);
      linesLeft -= lines.length;
      for (const part of new Set([value, value.trim(), ...lines])) {
        if (part.length < LIMITS.secretHiddenChars) continue;
        for (const form of formsOf(part)) forms.set(form, name);
        probes.add(probeOf(part));
      }
    }
    this.#forms = [...forms].map(([text, name]) => ({ text, name })).sort((a, b) => b.text.length - a.text.length);
    this.#probes = [...probes].map((probe) => Buffer.from(probe));
  }

  /** A text without the values. */
  text(text: string): string {
    const found = this.#forms.map((form) => ({ ...form, at: text.indexOf(form.text) })).filter(({ at }) => at !== -1);
    if (found.length === 0) return text;
    let redacted = '';
    for (let done = 0; ; ) {
      let next: (typeof found)[number] | null = null;
      for (const form of found) {
        if (form.at !== -1 && form.at < done) form.at = text.indexOf(form.text, done);
        if (form.at !== -1 && (next === null || form.at < next.at)) next = form;
      }
      if (next === null) return redacted + text.slice(done);
      redacted += `${text.slice(done, next.at)}[secret ${next.name}]`;
      done = next.at + next.text.length;
    }
  }

  /** How many characters at the end of a text may be the beginning of a value of which more is to come. */
  pending(text: string): number {
    return this.#forms.reduce((most, { text: form }) => {
      for (let length = Math.min(form.length - 1, text.length); length > most; length--)
        if (text.endsWith(form.slice(0, length))) return length;
      return most;
    }, 0);
  }

  /** JSON text without the values, in every form that JSON can write them: in strings, names of members and numbers. */
  json(bytes: Uint8Array): Uint8Array {
    if (this.idle) return bytes;
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (!this.#probes.some((probe) => buffer.includes(probe))) return bytes;
    const text = buffer.toString();
    const redacted = this.jsonText(text);
    return redacted === text ? bytes : Buffer.from(redacted);
  }

  /** What JSON can say of a value, without the secrets. */
  value<T>(value: T): T {
    if (this.idle || value === undefined) return value;
    return parse(this.jsonText(stringify(value))) as T;
  }

  /** As `json`, of a text. */
  jsonText(text: string): string {
    if (this.idle) return text;
    let redacted = '';
    for (let done = 0; ; ) {
      const start = text.indexOf('"', done);
      redacted += this.#numbers(text.slice(done, start === -1 ? text.length : start));
      if (start === -1) return redacted;
      done = endOfString(text, start);
      const token = text.slice(start, done);
      const said = parse(token) as string;
      const left = this.text(said);
      redacted += left === said ? token : stringify(left);
    }
  }

  /** What stands between texts; a number is only taken out as a whole. */
  #numbers(text: string): string {
    return text.replace(NUMBER, (number) => {
      const name = this.#values.get(number);
      return name === undefined || number.length < LIMITS.secretHiddenChars ? number : stringify(`[secret ${name}]`);
    });
  }
}

/** Lines of a value with several, which stack traces and the like show one by one. */
function linesOf(value: string): string[] {
  const lines = value.split(LINE_END);
  return lines.length === 1 ? [] : lines.filter((line) => line.length >= LIMITS.secretLineChars);
}

/** As it is, in JSON, in JSON that is a text of JSON, in an address, and as `console` shows it, which cuts what is long. */
function formsOf(part: string): string[] {
  const inJson = stringify(part).slice(1, -1);
  const shown = inspect(part.slice(0, CONSOLE_CHARS)).slice(1, -1);
  return [part, inJson, stringify(inJson).slice(1, -1), encodeURIComponent(part), shown];
}

function probeOf(part: string): string {
  const longest = (part.match(PLAIN) ?? []).reduce((best, run) => (run.length > best.length ? run : best), '');
  return longest.length < LIMITS.secretHiddenChars ? '' : longest;
}

/** Behind the quote that ends the string beginning at `start`. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
    if (escapes % 2 === 0) return end === -1 ? text.length : end + 1;
  }
}
