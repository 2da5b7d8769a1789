/** Publications made one after the other from one workspace, on a disk that fails: what was acknowledged must be there afterwards. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { appOf } from '../../testing/apps.ts';
import { Client, Counts, codeOf, outcomeOf } from '../../testing/clients.ts';
import type { Answer } from '../../testing/gateway.ts';
import { BLAMING, stepOf } from './changes.ts';
import { git } from './stored.ts';
import { Subject } from './subject.ts';

const APP = 'book';
const WORKSPACE = 'author';

/** Its query answers which text is live. Each fifth brings a migration, which the query counts. */
const migrationsOf = (text: number): number => Math.ceil((text + 1) / 5);
const query = (text: number): string =>
  `async ({ db }) => ({ text: ${text}, ...(await db.get('SELECT count(*) AS steps FROM steps')) })`;
const fileOf = (text: number): string => `export default ${query(text)};\n`;

export class Publications extends Client {
  /** Answers of publications: the status and the code. */
  readonly outcomes = new Counts();
  /** Acknowledged texts, by the number of the version. */
  readonly #acknowledged = new Map<number, number>();
  readonly #live = new Subject(`the live text of ${APP}`, -1);
  /** Since the last one that was acknowledged there was one whose outcome nobody was told. */
  #isUntold = false;
  #next = 0;
  #last = '';

  get acknowledged(): number {
    return this.#acknowledged.size;
  }

  /** The workspace and the first version; the disk is well. */
  async begin(): Promise<void> {
    const gateway = this.gateway;
    await gateway.install(APP, appOf(APP, { queries: { state: query(0) }, migrations: [stepOf(1)] }));
    const opened = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: WORKSPACE } });
    if (opened.status !== 201) throw new Error(opened.text);
    this.#acknowledged.set(1, 0);
    this.#live.acknowledged = 0;
    // Opening a database takes a little room, which a full disk does not have.
    await this.#look();
  }

  start(): void {
    this.repeat(() => this.#publish(), [0, 20]);
  }

  /** Nothing may be under way, and the disk is well: one more is published, and everything acknowledged is there. */
  async check(): Promise<string[]> {
    const gateway = this.gateway;
    // One after a publication whose outcome was not told is refused, and its workspace then brought up to date.
    const isPublished = (await this.#publish(true)) || (await this.#publish(true));
    const violations = this.violations.splice(0);
    if (!isPublished) violations.push(`With a disk that is well nothing is published: ${this.#last}`);
    const listed = await gateway.call('GET', `/svc/_apps/${APP}/versions?limit=500`);
    const numbers = new Set(
      (listed.json as { versionId: string }[]).map(({ versionId }) => Number(versionId.split('/v')[1])),
    );
    for (const number of this.#acknowledged.keys())
      if (!numbers.has(number)) violations.push(`${APP}/v${number} was acknowledged and is not there.`);
    const repository = join(gateway.dataDir, 'code-store/apps.git');
    const found = git(repository, 'fsck', '--strict', '--no-dangling').trim();
    if (found !== '') violations.push(`git fsck: ${found}`);
    for (const [number, text] of [...this.#acknowledged].slice(-20)) {
      if (git(repository, 'show', `${APP}/v${number}:apps/${APP}/queries/state.js`) !== fileOf(text))
        violations.push(`${APP}/v${number} has other files than were published.`);
    }
    if (git(repository, 'show', `main:apps/${APP}/queries/state.js`) !== fileOf(this.#live.acknowledged))
      violations.push(`main does not have what was published last.`);
    const namesIn = (folder: string) => readdirSync(join(gateway.dataDir, folder));
    const workspaceNames = namesIn('code-store/worktrees/sessions').filter((one) => one !== WORKSPACE);
    for (const name of [...namesIn('journal'), ...workspaceNames]) violations.push(`${name} was left behind.`);
    const workspaces = (await gateway.call('GET', '/svc/_sessions')).json as { sessionId: string; damaged?: string }[];
    if (workspaces.length !== 1 || workspaces[0]?.damaged !== undefined)
      violations.push(`The workspaces are ${JSON.stringify(workspaces)}.`);
    return violations;
  }

  /**
   * Writes the files of the next text and publishes them; what is live is old or new, and whole. True when it is acknowledged. On a
   * disk that is well it is answered.
   */
  async #publish(isWell = false): Promise<boolean> {
    const text = ++this.#next;
    for (let step = 1; step <= migrationsOf(text); step++)
      if (!(await this.#put(`migrations/${String(step).padStart(4, '0')}_step.sql`, stepOf(step)))) return false;
    if (!(await this.#put('queries/state.js', fileOf(text)))) return false;
    const path = `/svc/_sessions/${WORKSPACE}/publish`;
    const answer = await this.#asked('A publication', 'POST', path, { app: APP });
    this.outcomes.count(outcomeOf(answer));
    const isDone = answer?.status === 201;
    const isRefused = answer !== null && (codeOf(answer) === 'STORAGE_FULL' || answer.status < 500);
    const outcome = isDone ? 'done' : isRefused ? 'refused' : 'unknown';
    await this.#live.set(text, outcome);
    if (outcome !== 'refused') this.#isUntold = outcome === 'unknown';
    if (answer === null) {
      if (isWell) this.violations.push('On a disk that is well a publication got no answer.');
      return false;
    }
    this.#last = answer.text;
    if (isDone) this.#acknowledged.set(answer.json.version, text);
    if (answer.status === 409) {
      // A publication whose outcome nobody was told may be in the way; nothing else is. The next text replaces the marked lines.
      if (!this.#isUntold) this.violations.push(`Without another publication one was answered ${answer.text}`);
      await this.#asked('An update', 'POST', `/svc/_sessions/${WORKSPACE}/apps/${APP}/update`, undefined);
    }
    await this.#look();
    return isDone;
  }

  async #look(): Promise<void> {
    const answer = await this.answered('The live app', this.gateway.read(APP, 'state'));
    if (answer === null) return;
    const { status, json, text } = answer;
    if (status !== 200) {
      if (status !== 401) this.violations.push(`The live app was answered ${text}`);
      return;
    }
    const live = json.data as { text: number; steps: number };
    this.violations.push(...this.#live.see(live.text));
    if (live.steps !== migrationsOf(live.text))
      this.violations.push(`The text ${live.text} is live with ${live.steps} migrations.`);
  }

  async #put(path: string, content: string): Promise<boolean> {
    const at = `/svc/_sessions/${WORKSPACE}/apps/${APP}/files/${path}`;
    const answer = await this.#asked('A file of a workspace', 'PUT', at, Buffer.from(content));
    return answer !== null && answer.status < 300;
  }

  async #asked(what: string, method: string, path: string, body: unknown): Promise<Answer | null> {
    const answer = await this.answered(what, this.gateway.call(method, path, { body }));
    const code = answer === null ? null : codeOf(answer);
    if (answer !== null && code !== null && (BLAMING.test(code) || code === 'NO_CHANGES'))
      this.violations.push(`${what} was answered ${answer.text}`);
    return answer;
  }
}
