/** Publications made one after the other from one session, on a disk that fails: what was acknowledged must be there afterwards. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { appOf } from '../../testing/apps.ts';
import { Client, Counts } from '../../testing/clients.ts';
import type { Answer, TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { within } from '../../testing/waiting.ts';
import { BLAMING, codeIn, onlyOfConnections, stepOf } from './changes.ts';
import { git } from './stored.ts';

const HANG_MS = 60_000;
const APP = 'book';
const SESSION = 'author';

type Version = { number: number; text: number };

/** Its query answers which text is live. Each fifth brings a migration, which the query counts. */
const migrationsOf = (text: number): number => Math.ceil((text + 1) / 5);
const query = (text: number): string =>
  `async ({ db }) => ({ text: ${text}, ...(await db.get('SELECT count(*) AS steps FROM steps')) })`;
const fileOf = (text: number): string => `export default ${query(text)};\n`;

export class Publications extends Client {
  /** Answers of publications: the status and the code. */
  readonly outcomes = new Counts();
  readonly #random: Random;
  /** What was acknowledged, by the number of the version. */
  readonly #acknowledged = new Map<number, Version>();
  #newest: Version = { number: 0, text: -1 };
  /** Texts that may have become live without an answer that says so. */
  #open: number[] = [];
  #next = 0;

  constructor(gateway: TestGateway, random: Random) {
    super(gateway);
    this.#random = random;
  }

  get acknowledged(): number {
    return this.#acknowledged.size;
  }

  /** The session and the first version; the disk is well. */
  async begin(): Promise<void> {
    const gateway = this.gateway;
    const files = appOf(APP, { queries: { state: query(0) }, migrations: [stepOf(1)] });
    const first = await gateway.upload(APP, files);
    const opened = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: SESSION } });
    if (first.status !== 201 || opened.status !== 201) throw new Error(`${first.text} ${opened.text}`);
    this.#note({ number: 1, text: 0 });
    // Opening a database takes a little room, which a full disk does not have.
    await this.#look();
  }

  start(): void {
    this.repeat(
      () => this.#one().catch(onlyOfConnections),
      () => this.#random.between(0, 20),
    );
  }

  /** Nothing may be under way, and the disk is well: one more is published, and everything acknowledged is there. */
  async check(): Promise<string[]> {
    const gateway = this.gateway;
    await this.#one();
    // One after a publication whose outcome was not told is refused, and its session then brought up to date.
    if (this.#newest.text !== this.#next) await this.#one();
    const violations = this.violations.splice(0);
    if (this.#newest.text !== this.#next)
      violations.push(`With a disk that is well nothing is published: ${this.#last}`);
    const listed = await gateway.call('GET', `/svc/_apps/${APP}/versions?limit=500`);
    const numbers = new Set(
      (listed.json as { versionId: string }[]).map(({ versionId }) => Number(versionId.split('/v')[1])),
    );
    for (const number of this.#acknowledged.keys())
      if (!numbers.has(number)) violations.push(`${APP}/v${number} was acknowledged and is not there.`);
    const repository = join(gateway.dataDir, 'code-store/apps.git');
    const found = git(repository, 'fsck', '--strict', '--no-dangling').trim();
    if (found !== '') violations.push(`git fsck: ${found}`);
    for (const { number, text } of [...this.#acknowledged.values()].slice(-20)) {
      if (git(repository, 'show', `${APP}/v${number}:apps/${APP}/queries/state.js`) !== fileOf(text))
        violations.push(`${APP}/v${number} has other files than were published.`);
    }
    if (git(repository, 'show', `main:apps/${APP}/queries/state.js`) !== fileOf(this.#newest.text))
      violations.push(`main does not have what was published last.`);
    const namesIn = (folder: string) => readdirSync(join(gateway.dataDir, 'code-store', folder));
    for (const name of [...namesIn('publishing'), ...namesIn('worktrees/sessions').filter((one) => one !== SESSION)])
      violations.push(`${name} was left behind.`);
    const sessions = (await gateway.call('GET', '/svc/_sessions')).json as { sessionId: string; damaged?: string }[];
    if (sessions.length !== 1 || sessions[0]?.damaged !== undefined)
      violations.push(`The sessions are ${JSON.stringify(sessions)}.`);
    return violations;
  }

  #last = '';

  /** Writes the files of the next text and publishes them; what is live is old or new, and whole. */
  async #one(): Promise<void> {
    const text = ++this.#next;
    for (let step = 1; step <= migrationsOf(text); step++)
      if (!(await this.#put(`migrations/${String(step).padStart(4, '0')}_step.sql`, stepOf(step)))) return;
    if (!(await this.#put('queries/state.js', fileOf(text)))) return;
    this.#open.push(text);
    const path = `/svc/_sessions/${SESSION}/publish`;
    const answer = await within(HANG_MS, this.gateway.call('POST', path, { body: { app: APP } }));
    if (answer === 'late') {
      this.violations.push(`A publication hung for ${HANG_MS} ms.`);
      return;
    }
    this.#judge('A publication', answer);
    this.#last = answer.text;
    if (answer.status === 201) this.#note({ number: answer.json.version, text });
    else if (answer.json.error.code === 'STORAGE_FULL' || answer.status < 500) this.#open.pop();
    if (answer.status === 409) await this.#update(answer.text);
    await this.#look();
  }

  /** A publication whose outcome nobody was told may be in the way; nothing else is. The next text replaces the marked lines. */
  async #update(text: string): Promise<void> {
    if (this.#open.length === 0) this.violations.push(`Without another publication one was answered ${text}`);
    await this.gateway.call('POST', `/svc/_sessions/${SESSION}/apps/${APP}/update`);
  }

  async #look(): Promise<void> {
    const { status, json, text } = await this.gateway.read(APP, 'state');
    if (status !== 200) {
      if (status !== 401) this.violations.push(`The live app was answered ${text}`);
      return;
    }
    const live = json.data as { text: number; steps: number };
    if (live.text !== this.#newest.text && !this.#open.includes(live.text))
      this.violations.push(`Live is the text ${live.text}; acknowledged was ${this.#newest.text}.`);
    if (live.steps !== migrationsOf(live.text))
      this.violations.push(`The text ${live.text} is live with ${live.steps} migrations.`);
  }

  async #put(path: string, content: string): Promise<boolean> {
    const at = `/svc/_sessions/${SESSION}/apps/${APP}/files/${path}`;
    const answer = await within(HANG_MS, this.gateway.call('PUT', at, { body: Buffer.from(content) }));
    if (answer === 'late') this.violations.push(`A file of a session hung for ${HANG_MS} ms.`);
    else this.#judge('A file of a session', answer);
    return answer !== 'late' && answer.status < 300;
  }

  #judge(what: string, answer: Answer): void {
    const code = codeIn(answer);
    if (code !== null && (BLAMING.test(code) || code === 'NO_CHANGES'))
      this.violations.push(`${what} was answered ${answer.text}`);
    if (what === 'A publication') this.outcomes.count(`${answer.status} ${code ?? 'ok'}`);
  }

  #note(version: Version): void {
    this.#acknowledged.set(version.number, version);
    this.#newest = version;
    this.#open = [];
  }
}
