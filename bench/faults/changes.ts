/** Changes other than rows (uploads, migrations, settings, tokens, apps) made one after the other, and what must be left of them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { appOf } from '../../testing/apps.ts';
import { Client, Counts, codeOf, outcomeOf } from '../../testing/clients.ts';
import { type Answer, root, type TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { pause } from '../../testing/waiting.ts';
import { type Outcome, Subject } from './subject.ts';

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

export class Changes extends Client {
  /** How often each kind was acknowledged. */
  readonly done = new Counts();
  /** How often each answer other than success came: the kind, the status and the code. */
  readonly refused = new Counts();
  readonly #env: Record<string, string>;
  readonly #version = new Subject(`the version of ${APP}`, 0);
  readonly #settings = new Subject(`the settings of ${APP}`, 0);
  readonly #token = new Subject('the token', '');
  readonly #apps = new Map<string, Subject<boolean>>();
  #count = 0;
  /** A rotation was begun whose token nobody was told. */
  #rotating = false;

  /** `env` is that of the gateway, for the commands that change its files beside it. */
  constructor(gateway: TestGateway, env: Record<string, string>, random: Random) {
    super(gateway, random);
    this.#env = env;
  }

  /** Changes things until `stop`; resolves when the first version of the app is there. */
  async start(): Promise<void> {
    this.#token.acknowledged = this.gateway.token;
    if (this.#version.acknowledged === 0) await this.#attempt('upload');
    this.repeat(() => this.#attempt(this.random.pick(KINDS)), [0, 20]);
  }

  /** Compares what the gateway has with what was acknowledged. Nothing may be under way. */
  async check(): Promise<string[]> {
    const gateway = this.gateway;
    const violations = this.violations.splice(0);
    const token = tokenIn(gateway.dataDir);
    // One that a cut-off rotation wrote has been told to nobody.
    if (token !== null && this.#rotating) this.#token.acknowledged = token;
    violations.push(...this.#token.settle(String(token)));
    this.#rotating = false;
    const state = (await gateway.read(APP, 'state')).json;
    if (state.isError !== undefined && state.data === undefined) {
      if (this.#version.acknowledged !== 0) violations.push(`${APP} does not answer: ${JSON.stringify(state)}.`);
    } else {
      const { version, steps } = state.data as { version: number; steps: number };
      violations.push(...this.#version.settle(version));
      if (steps !== migrationsOf(version))
        violations.push(`${APP} has version ${version} with ${steps} migrations instead of ${migrationsOf(version)}.`);
      const { settings } = (await gateway.call('GET', `/svc/_apps/${APP}/settings`)).json;
      violations.push(...this.#settings.settle(settings.value ?? 0));
    }
    const listed = new Set(((await gateway.call('GET', '/svc/_apps')).json as { id: string }[]).map(({ id }) => id));
    for (const [id, subject] of this.#apps) {
      violations.push(...subject.settle(listed.has(id)));
      if (!listed.has(id)) continue;
      const answer = await gateway.read(id, 'ok');
      if (answer.status !== 200) violations.push(`${id} is registered and answers ${answer.text}.`);
    }
    return violations;
  }

  async #attempt(kind: Kind): Promise<void> {
    if ((await this.#change(kind)) !== 'done') return;
    this.done.count(kind);
    this.step();
  }

  #change(kind: Kind): Promise<Outcome> {
    const gateway = this.gateway;
    const next = ++this.#count;
    const ok = async (call: Promise<Answer>): Promise<Outcome> => {
      const answer = await this.answered(`A change (${kind})`, call);
      // Nobody answers: it is asked again after a pause.
      return answer === null ? pause(20, 'unknown') : this.#judge(kind, answer);
    };
    if (kind === 'upload') return this.#version.set(next, ok(gateway.upload(APP, paper(next))));
    if (kind === 'settings')
      return this.#settings.set(next, ok(gateway.call('PUT', `/svc/_apps/${APP}/settings`, { body: { value: next } })));
    if (kind === 'token') return this.#rotate();
    const existing = [...this.#apps].filter(([, subject]) => subject.acknowledged).map(([id]) => id);
    if (kind === 'remove' && existing.length > 0) {
      const id = this.random.pick(existing);
      const path = `/svc/_apps/${id}${this.random.next() < 0.5 ? '?purge=1' : ''}`;
      return (this.#apps.get(id) as Subject<boolean>).set(false, ok(gateway.call('DELETE', path)));
    }
    const id = `small-${next}`;
    const subject = new Subject(`that ${id} is registered`, false);
    this.#apps.set(id, subject);
    return subject.set(true, ok(gateway.upload(id, small(id))));
  }

  #judge(kind: string, answer: Answer): Outcome {
    const { status } = answer;
    if (status < 300) return 'done';
    const code = codeOf(answer);
    this.refused.count(`${kind} ${outcomeOf(answer)}`);
    if (code === null || BLAMING.test(code))
      this.violations.push(`A change (${kind}) was answered ${status} ${answer.text}`);
    return status < 500 || code === 'STORAGE_FULL' ? 'refused' : 'unknown';
  }

  /** By the command, which waits until the running gateway takes the new one. */
  async #rotate(): Promise<Outcome> {
    const { dataDir } = this.gateway;
    this.#rotating = true;
    const rotated = await this.answered('A change (token)', rotateToken(dataDir, this.#env));
    const token = rotated?.code === 0 ? rotated.token : null;
    if (token === null) {
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
export function tokenIn(dataDir: string): string | null {
  try {
    return /^[0-9a-f]{64}$/.exec(readFileSync(join(dataDir, 'token.bin'), 'latin1').trim())?.[0] ?? null;
  } catch {
    return null;
  }
}
