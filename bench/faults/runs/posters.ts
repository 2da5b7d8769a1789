/** Clients that post to webhooks under faults and remember what they were answered. */
import { createHmac } from 'node:crypto';
import type { MintedWebhook } from '../../../protocol/automations/automation.ts';
import { Client, HANG_MS, outcomeOf } from '../../../testing/clients.ts';
import type { Answer, TestGateway } from '../../../testing/gateway.ts';
import type { Random } from '../../../testing/random.ts';
import { eventually } from '../../../testing/waiting.ts';

/** Time that a run takes beside its write, at most. */
const LONGEST_MS = 60;
const AGAIN_MS = 50;

/** Times in milliseconds of `performance.now()`. `outcome` is a status with its error code, or `no answer`. */
export type Post = {
  key: string;
  sentAt: number;
  answeredAt: number;
  outcome: string;
  /** Null where none was answered. */
  runId: string | null;
};

/** One message of a sender that repeats it until the outcome is definite. `taken`: it was refused as one that was already accepted. */
export type Message = { key: string; outcome: 'ok' | 'taken' };

export class Posters extends Client {
  readonly posts: Post[] = [];
  readonly messages: Message[] = [];
  readonly #plain: MintedWebhook[];
  #count = 0;

  /** `clients` post to plain webhooks; to each signed one there is one sender. */
  constructor(gateway: TestGateway, webhooks: MintedWebhook[], clients: number, random: Random) {
    super(gateway, random);
    this.#plain = webhooks.filter(({ automationId }) => automationId !== 'signed');
    const signed = webhooks.filter((one) => !this.#plain.includes(one));
    for (let id = 0; id < clients; id++) {
      const own = random.fork();
      // A webhook takes 60 posts a minute: of a dozen each gets some 30, and the looks at whether it is open.
      const turn = () => this.#request(own.pick(this.#plain), own.between(0, LONGEST_MS), own.next() < 0.5);
      this.repeat(turn, [500, 1300], own);
    }
    // A message takes more than one post at times, of 60 in a minute.
    for (const webhook of signed) this.repeat(() => this.#send(webhook), 1500);
  }

  /** Posts to each plain webhook until it answers that the run went well. Rejects with those that do not. */
  async open(): Promise<void> {
    const closed: string[] = [];
    const look = async (webhook: MintedWebhook) => {
      let last = '';
      const isOpen = async () => {
        ({ outcome: last } = await this.#request(webhook, 0, false));
        return last === '200';
      };
      if (!(await eventually(HANG_MS, isOpen, AGAIN_MS)))
        closed.push(`${webhook.ownerApp}/${webhook.automationId} still answers ${last}.`);
    };
    await Promise.all(this.#plain.map(look));
    if (closed.length > 0) throw new Error(closed.join(' '));
  }

  async #request(webhook: MintedWebhook, ms: number, isAsync: boolean): Promise<Post> {
    const key = `p-${++this.#count}`;
    const post: Post = { key, sentAt: performance.now(), answeredAt: Infinity, outcome: '', runId: null };
    this.posts.push(post);
    const headers = { 'content-type': 'application/json', 'x-host-webhook-secret': webhook.secret };
    const answer = await this.#ask(webhook, JSON.stringify({ key, ms }), headers, isAsync ? '?async=1' : '');
    const outcome = outcomeOf(answer);
    Object.assign(post, { outcome, runId: answer?.json.runId ?? null, answeredAt: performance.now() });
    if (outcome === '200' || outcome === '202') this.step();
    return post;
  }

  /** One message after the other, each signed and sent again, under its id, until the answer says what became of it. */
  async #send(webhook: MintedWebhook): Promise<void> {
    const signingKey = Buffer.from(webhook.secret.slice('whsec_'.length), 'base64');
    const key = `m-${++this.#count}`;
    const body = JSON.stringify({ key, ms: 5 });
    const outcome = await this.definite(`The message ${key}`, AGAIN_MS, async () => {
      const timestamp = String(Math.floor(Date.now() / 1000));
      const signature = createHmac('sha256', signingKey).update(`${key}.${timestamp}.${body}`).digest('base64');
      const answer = await this.#ask(webhook, body, {
        'webhook-id': key,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${signature}`,
      });
      if (answer?.status === 200) return 'ok';
      return answer !== null && /already accepted/.test(answer.text) ? 'taken' : null;
    });
    if (outcome !== null) this.messages.push({ key, outcome });
  }

  #ask(
    { url, automationId }: MintedWebhook,
    body: string,
    headers: Record<string, string>,
    query = '',
  ): Promise<Answer | null> {
    const call = this.gateway.call('POST', new URL(url).pathname + query, { body, headers, token: null });
    return this.answered(`A post to ${automationId}`, call);
  }
}
