/** Stores files of an app, over HTTP and in a handler, cuts some off half way and deletes some, whatever is killed meanwhile. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { Layout } from '../../storage/layout.ts';
import { appOf } from '../../testing/apps.ts';
import { Client, Counts } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';

const APP = 'keeper';
const PATH = `/svc/${APP}/_blobs`;
const TYPES = ['image/png', 'text/plain; charset=utf-8', 'application/octet-stream'];
const BYTES = 512 * 1024;
const FILES = appOf(APP, {
  actions: {
    keep: `async ({ input, ctx }) => {
      return { status: 201, body: await ctx.blobs.put(Buffer.from(input.content, 'base64'), { type: input.type }) };
    }`,
  },
});

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export class Keeper extends Client {
  /** How often each status was answered to an upload; `none` for a connection that broke, `cut` for one that was cut off here. */
  readonly outcomes = new Counts();
  /** Type by name: acknowledged, and not asked to be deleted since. */
  readonly #kept = new Map<string, string>();
  /** Deleted, and acknowledged. */
  readonly #deleted = new Set<string>();
  /** Of the last one, so that no two are alike. */
  #number = 0;

  private constructor(gateway: TestGateway, random: Random) {
    super(gateway, random);
    this.repeat(() => this.#next(), [0, 20]);
  }

  static async enter(gateway: TestGateway, random: Random): Promise<Keeper> {
    await gateway.install(APP, FILES);
    return new Keeper(gateway, random);
  }

  /** Once nothing is killed any more: what was acknowledged is there, what was deleted is not, and there is no half file. */
  override async stop(): Promise<void> {
    await super.stop();
    for (const [name, type] of this.#kept) await this.#look(name, type, true);
    for (const name of this.#deleted) {
      const { status } = await this.gateway.call('GET', `${PATH}/${name}`);
      if (status !== 404) this.violations.push(`the deleted file ${name} was answered ${status}.`);
    }
    const folder = new Layout(this.gateway.dataDir).app(APP).blobsDir;
    for (const name of readdirSync(folder).filter((one) => !one.includes('.'))) {
      if (sha256(readFileSync(join(folder, name))) !== name) this.violations.push(`the file ${name} is not whole.`);
    }
  }

  async #next(): Promise<void> {
    const what = this.random.between(0, 9);
    const [some] = this.#kept;
    if (what === 0 && some !== undefined) await this.#remove(some[0]);
    else if (what === 1 && some !== undefined) await this.#look(...some, false);
    else await this.#store(what);
  }

  async #store(what: number): Promise<void> {
    const content = Buffer.alloc(this.random.between(1, BYTES), `file ${++this.#number} `);
    const type = this.random.pick(TYPES);
    if (what < 4) {
      await this.#cutOff(content);
      this.outcomes.count('cut');
      return;
    }
    const stored =
      what < 6
        ? this.gateway.write(APP, 'keep', { content: content.toString('base64'), type })
        : this.gateway.call('PUT', PATH, { body: content, headers: { 'content-type': type } });
    const answer = await this.answered('The upload of a file', stored);
    this.outcomes.count(String(answer?.status ?? 'none'));
    if (answer?.status === 201) this.#kept.set(sha256(content), type);
  }

  /** Sends a part of it, and ends the connection. */
  #cutOff(content: Buffer): Promise<void> {
    return new Promise((resolve) => {
      const headers = { authorization: `Bearer ${this.gateway.token}`, 'content-length': content.length + 1 };
      const req = request(this.gateway.url + PATH, { method: 'PUT', headers });
      req.on('close', resolve).on('error', () => {});
      req.write(content, () => req.destroy());
    });
  }

  /** One whose answer did not come may be there or not. */
  async #remove(name: string): Promise<void> {
    this.#kept.delete(name);
    const answer = await this.answered(`The removal of ${name}`, this.gateway.call('DELETE', `${PATH}/${name}`));
    if (answer?.status === 200) this.#deleted.add(name);
    else if (answer?.status === 404) this.violations.push(`the acknowledged file ${name} was not there to be deleted.`);
  }

  async #look(name: string, type: string, isSure: boolean): Promise<void> {
    const answer = await this.answered(`A look at ${name}`, this.gateway.call('GET', `${PATH}/${name}`));
    const isAway = answer === null || answer.status === 503;
    if (isAway && !isSure) return;
    const isRight = answer?.status === 200 && sha256(answer.bytes) === name && answer.headers['content-type'] === type;
    if (!isRight)
      this.violations.push(
        `the acknowledged file ${name} of type ${type} was answered ${answer?.status ?? 'nothing'}.`,
      );
  }
}
