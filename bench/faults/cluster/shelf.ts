/** Stores files of an app and uploads versions of it at one node after the other: what was acknowledged is at every node, whole. */
import { createHash } from 'node:crypto';
import { appOf } from '../../../testing/apps.ts';
import { Client, Counts, outcomeOf } from '../../../testing/clients.ts';
import type { Answer, TestGateway } from '../../../testing/gateway.ts';
import type { Random } from '../../../testing/random.ts';
import { Subject } from '../subject.ts';

const APP = 'shelf';
const PATH = `/svc/${APP}/_blobs`;
const BYTES = 128 * 1024;
/** Of so many turns one uploads a version, and one looks whether what is there is right. */
const TURNS = 6;

/** A whole number; answered by its query, so that a version that is there in part shows. */
const versionOf = (version: number): Record<string, string | Buffer> =>
  appOf(APP, {
    manifest: { version: `${version}.0.0` },
    queries: { version: `() => ${version}` },
    files: { 'page.html': `<p>${version}</p>` },
  });

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export class Shelf extends Client {
  readonly outcomes = new Counts();
  readonly #nodes: readonly TestGateway[];
  readonly #files: string[] = [];
  readonly #version = new Subject<number>(`the version of ${APP}`, 0);
  #count = 0;

  constructor(nodes: readonly TestGateway[], random: Random) {
    super(nodes[0] as TestGateway, random);
    this.#nodes = nodes;
    this.repeat((n) => this.#next(n % TURNS), [100, 300]);
  }

  /** Once nothing is struck any more: what this node has, which made it of what the cluster has. */
  async check(node: TestGateway): Promise<string[]> {
    const definite = (path: string) =>
      this.definite(path, 100, async () => {
        const answer = await node.call('GET', path);
        return answer.status === 503 ? null : answer;
      });
    for (const name of this.#files) this.#judge(name, await definite(`${PATH}/${name}`));
    const version = await this.definite('The version', 100, () => this.#versionAt(node));
    if (version !== null) this.violations.push(...this.#version.settle(version));
    return this.violations;
  }

  async #next(turn: number): Promise<void> {
    const node = this.random.pick(this.#nodes);
    if (turn === 0) await this.#upload(node);
    else if (turn === 1) await this.#look(node);
    else await this.#store(node);
  }

  async #upload(node: TestGateway): Promise<void> {
    const version = ++this.#count;
    const answer = await this.answered('An upload', node.upload(APP, versionOf(version)));
    const isDone = answer !== null && answer.status < 300;
    this.#note('upload', answer);
    await this.#version.set(version, isDone ? 'done' : 'unknown');
  }

  async #store(node: TestGateway): Promise<void> {
    const content = Buffer.alloc(this.random.between(1, BYTES), `file ${++this.#count} `);
    const headers = { 'content-type': 'text/plain; charset=utf-8' };
    const what = `A file of ${content.length} bytes, asked for at node ${this.#nodes.indexOf(node) + 1},`;
    const answer = await this.answered(what, node.call('PUT', PATH, { body: content, headers }));
    this.#note('file', answer);
    if (answer?.status === 201) this.#files.push(sha256(content));
  }

  async #look(node: TestGateway): Promise<void> {
    const version = await this.#versionAt(node).catch(() => null);
    if (version !== null) this.violations.push(...this.#version.see(version));
    if (this.#files.length === 0) return;
    const name = this.random.pick(this.#files);
    const answer = await this.answered(`A look at ${name}`, node.call('GET', `${PATH}/${name}`));
    if (answer !== null && answer.status !== 503 && answer.status !== 507 && answer.status !== 401)
      this.#judge(name, answer);
  }

  /** Null where it is not answered now. */
  async #versionAt(node: TestGateway): Promise<number | null> {
    const answer = await node.read(APP, 'version', {});
    return answer.status === 200 ? (answer.json as { data: number }).data : null;
  }

  #judge(name: string, answer: Answer | null): void {
    if (answer?.status !== 200 || sha256(answer.bytes) !== name)
      this.violations.push(`the acknowledged file ${name} was answered ${outcomeOf(answer)}.`);
  }

  #note(what: string, answer: Answer | null): void {
    this.outcomes.count(`${what} ${outcomeOf(answer)}`);
  }
}
