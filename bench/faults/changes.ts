/** Changes other than rows (uploads, migrations, settings, tokens, apps) made one after the other, and what must be left of them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { appOf } from '../../testing/apps.ts';
import { Client, Counts, Progress } from '../../testing/clients.ts';
import { type Answer, root, type TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { pause, within } from '../../testing/waiting.ts';

const HANG_MS = 60_000;
const KINDS = ['upload', 'upload', 'settings', 'settings', 'create', 'remove', 'token'] as const;
type Kind = (typeof KINDS)[number];

/** What is sent is right: whatever the disk does, these are the wrong answers. */
export const BLAMING = /^(INVALID|ARCHIVE|MIGRATION|BAD)_/;

/** The app whose versions and settings change. Each third version brings a migration. */
const APP = 'paper';
const migrationsOf = (version: number): number => Math.ceil(version / 3);

/** The migration of this number. */
export const stepOf = (step: number): string =>
  `${step === 1 ? 'CREATE TABLE steps (step INTEGER NOT NULL);' : ''} INSERT INTO steps VALUES (${step});`;

/** Its query answers its version and how many migrations its data has had; the two belong together. */
const paper = (version: number) =>
  appOf(APP, {
    manifest: { version: `${version}.0.0` },
    queries: {
      state: `async ({ db }) => ({ version: ${version}, ...(await db.get('SELECT count(*) AS steps FROM steps')) })`,
    },
    migrations: Array.from({ length: migrationsOf(version) }, (_, i) => stepOf(i + 1)),
    files: { 'index.html': `<title>${version}</title>` },
  });

const small = (id: string) => appOf(id, { queries: { ok: `() => 'ok'` } });

/** `refused`: the answer says that nothing was changed. */
type Outcome = 'done' | 'refused' | 'unknown';

/** What was acknowledged last, and what was asked for since without an answer: either may be found. */
class Subject<T> {
  readonly name: string;
  acknowledged: T;
  #open: T[] = [];

  constructor(name: string, initial: T) {
    this.name = name;
    this.acknowledged = initial;
  }

  /** `change` throws when nothing was answered, and the outcome is then as open as after `unknown`. */
  async set(value: T, change: () => Promise<Outcome>): Promise<Outcome> {
    this.#open.push(value);
    const outcome = await change();
    if (outcome === 'done') this.acknowledged = value;
    if (outcome === 'done') this.#open = [];
    // Only this try: an earlier one for the same, whose answer was lost, may be why it was refused.
    if (outcome === 'refused') this.#open.splice(this.#open.lastIndexOf(value), 1);
    return outcome;
  }

  /** A sentence when `found` is neither. What was found is what counts from now on. */
  check(found: T): string[] {
    const right = found === this.acknowledged || this.#open.includes(found);
    const text = `${this.name} is ${String(found)}; acknowledged was ${String(this.acknowledged)}${this.#open.length === 0 ? '' : `, unanswered ${this.#open.join(', ')}`}.`;
    this.acknowledged = found;
    this.#open = [];
    return right ? [] : [text];
  }
}

export class Changes extends Client {
  /** How often each kind was acknowledged. */
  readonly done = new Counts();
  /** How often each answer other than success came: the kind, the status and the code. */
  readonly refused = new Counts();
  readonly #env: Record<string, string>;
  readonly #random: Random;
  readonly #version = new Subject(`the version of ${APP}`, 0);
  readonly #settings = new Subject(`the settings of ${APP}`, 0);
  readonly #token = new Subject('the token', '');
  readonly #apps = new Map<string, Subject<boolean>>();
  #count = 0;
  /** A rotation was begun whose token nobody was told. */
  #rotating = false;
  readonly #progress = new Progress();

  /** `env` is that of the gateway, for the commands that change its files beside it. */
  constructor(gateway: TestGateway, env: Record<string, string>, random: Random) {
    super(gateway);
    this.#env = env;
    this.#random = random;
  }

  /** Changes things until `stop`; resolves when the first version of the app is there. */
  async start(): Promise<void> {
    this.#token.acknowledged = this.gateway.token;
    if (this.#version.acknowledged === 0) await this.#attempt('upload');
    this.repeat(
      () => this.#attempt(this.#random.pick(KINDS)),
      () => this.#random.between(0, 20),
    );
  }

  /** Resolves when the next change is acknowledged. */
  next(): Promise<void> {
    return this.#progress.more();
  }

  /** Compares what the gateway has with what was acknowledged. Nothing may be under way. */
  async check(): Promise<string[]> {
    const gateway = this.gateway;
    const violations = this.violations.splice(0);
    const token = tokenIn(gateway.dataDir);
    // One that a cut-off rotation wrote has been told to nobody.
    if (token !== null && this.#rotating) this.#token.acknowledged = token;
    violations.push(...this.#token.check(String(token)));
    this.#rotating = false;
    const state = (await gateway.read(APP, 'state')).json;
    if (state.isError !== undefined && state.data === undefined) {
      if (this.#version.acknowledged !== 0) violations.push(`${APP} does not answer: ${JSON.stringify(state)}.`);
    } else {
      const { version, steps } = state.data as { version: number; steps: number };
      violations.push(...this.#version.check(version));
      if (steps !== migrationsOf(version))
        violations.push(`${APP} has version ${version} with ${steps} migrations instead of ${migrationsOf(version)}.`);
      const { settings } = (await gateway.call('GET', `/svc/_apps/${APP}/settings`)).json;
      violations.push(...this.#settings.check(settings.value ?? 0));
    }
    const listed = new Set(((await gateway.call('GET', '/svc/_apps')).json as { id: string }[]).map(({ id }) => id));
    for (const [id, subject] of this.#apps) {
      violations.push(...subject.check(listed.has(id)));
      if (!listed.has(id)) continue;
      const answer = await gateway.read(id, 'ok');
      if (answer.status !== 200) violations.push(`${id} is registered and answers ${answer.text}.`);
    }
    return violations;
  }

  async #attempt(kind: Kind): Promise<void> {
    try {
      const outcome = await within(HANG_MS, this.#change(kind));
      if (outcome === 'late') this.violations.push(`A change (${kind}) hung for ${HANG_MS} ms.`);
      if (outcome !== 'done') return;
      this.done.count(kind);
      this.#progress.step();
    } catch (error) {
      onlyOfConnections(error);
      await pause(20);
    }
  }

  #change(kind: Kind): Promise<Outcome> {
    const gateway = this.gateway;
    const next = ++this.#count;
    const ok = async (answer: Promise<Answer>): Promise<Outcome> => this.#judge(kind, await answer);
    if (kind === 'upload') return this.#version.set(next, () => ok(gateway.upload(APP, paper(next))));
    if (kind === 'settings')
      return this.#settings.set(next, () =>
        ok(gateway.call('PUT', `/svc/_apps/${APP}/settings`, { body: { value: next } })),
      );
    if (kind === 'token') return this.#rotate();
    const existing = [...this.#apps].filter(([, subject]) => subject.acknowledged).map(([id]) => id);
    if (kind === 'remove' && existing.length > 0) {
      const id = this.#random.pick(existing);
      const path = `/svc/_apps/${id}${this.#random.next() < 0.5 ? '?purge=1' : ''}`;
      return (this.#apps.get(id) as Subject<boolean>).set(false, () => ok(gateway.call('DELETE', path)));
    }
    const id = `small-${next}`;
    const subject = new Subject(`that ${id} is registered`, false);
    this.#apps.set(id, subject);
    return subject.set(true, () => ok(gateway.upload(id, small(id))));
  }

  #judge(kind: string, answer: Answer): Outcome {
    const { status } = answer;
    if (status < 300) return 'done';
    const code = codeIn(answer);
    if (code === null) this.violations.push(`A change (${kind}) was answered ${status} without a code: ${answer.text}`);
    this.refused.count(`${kind} ${status} ${code}`);
    if (code !== null && BLAMING.test(code)) this.violations.push(`A change (${kind}) was answered ${answer.text}`);
    return status < 500 || code === 'STORAGE_FULL' ? 'refused' : 'unknown';
  }

  /** By the command, which waits until the running gateway takes the new one. */
  async #rotate(): Promise<Outcome> {
    const { dataDir } = this.gateway;
    this.#rotating = true;
    const { code, token } = await rotateToken(dataDir, this.#env);
    if (code !== 0 || token === null) {
      // It may stand in the file all the same, and the gateway follows the file.
      const written = tokenIn(dataDir);
      if (written !== null) this.gateway.token = written;
      return 'unknown';
    }
    this.#rotating = false;
    this.gateway.token = token;
    this.#token.acknowledged = token;
    return 'done';
  }
}

/** Runs `svc token rotate` beside the gateway. `code` is null when it was ended. */
export async function rotateToken(dataDir: string, env: NodeJS.ProcessEnv) {
  const args = [join(root, 'bin/svc.js'), 'token', 'rotate', '--data-dir', dataDir, '--json'];
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'close') as Promise<[number | null]>]);
  return { code, token: /[0-9a-f]{64}/.exec(out)?.[0] ?? null };
}

/** Null when the file is missing, or no whole token is in it. */
function tokenIn(dataDir: string): string | null {
  try {
    return /^[0-9a-f]{64}$/.exec(readFileSync(join(dataDir, 'token.bin'), 'latin1').trim())?.[0] ?? null;
  } catch {
    return null;
  }
}

/** The code of an error; null where none was given. */
export function codeIn(answer: Answer): string | null {
  try {
    const { error } = JSON.parse(answer.text) as { error?: { code?: unknown } };
    return typeof error?.code === 'string' ? error.code : null;
  } catch {
    return null;
  }
}

/** The connection ended; anything else is a fault of the campaign. */
export function onlyOfConnections(error: unknown): void {
  if (typeof (error as NodeJS.ErrnoException).code !== 'string') throw error;
}
