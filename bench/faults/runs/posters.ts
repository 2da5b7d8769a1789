/** Clients that post to webhooks under faults and remember what they were answered. */
import { createHmac } from 'node:crypto';
import type { MintedWebhook } from '../../../protocol/automations/automation.ts';
import { Client, HANG_MS, outcomeOf, Progress } from '../../../testing/clients.ts';
import type { Answer, TestGateway } from '../../../testing/gateway.ts';
import type { Random } from '../../../testing/random.ts';
import { eventually, pause } from '../../../testing/waiting.ts';

/** At most this many posts to a webhook in this time. It takes 60 a minute: what is left is for the looks at whether it is open. */
const POSTS = 7;
const POSTS_MS = 10_000;
/** Time that a run takes beside its write, at most. */
const LONGEST_MS = 60;
const AGAIN_MS = 50;

/** Times in milliseconds of `performance.now()`. `outcome` is a status with its error code, or `no answer`. */
export type Post = {
  key: string;
  app: string;
  sentAt: number;
  answeredAt: number;
  outcome: string;
  /** Null where none was answered. */
  runId: string | null;
};

/** One message of a sender that repeats it until the outcome is definite. `taken`: it was refused as one that was already accepted. */
export type Message = { key: string; app: string; outcome: 'ok' | 'taken' | 'hung' };

export class Posters extends Client {
  readonly posts: Post[] = [];
  readonly messages: Message[] = [];
  readonly #plain: MintedWebhook[];
  /** When each webhook was posted to of late. */
  readonly #used = new Map<MintedWebhook, number[]>();
  readonly #acknowledged = new Progress();
  #count = 0;

  /** `clients` post to plain webhooks; to each signed one there is one sender. */
  constructor(gateway: TestGateway, webhooks: MintedWebhook[], clients: number, random: Random) {
    super(gateway);
    this.#plain = webhooks.filter(({ automationId }) => automationId !== 'signed');
    const signed = webhooks.filter((one) => !this.#plain.includes(one));
    for (let id = 0; id < clients; id++) {
      const own = random.fork();
      this.repeat(
        () => this.#post(own),
        () => own.between(100, 600),
      );
    }
    // A message takes more than one post at times, of 60 in a minute.
    for (const webhook of signed)
      this.repeat(
        () => this.#send(webhook),
        () => 1500,
      );
  }

  /** Resolves when `count` more posts were answered with success. */
  more(count: number): Promise<void> {
    return this.#acknowledged.more(count);
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

  async #post(random: Random): Promise<void> {
    const webhook = random.pick(this.#plain);
    const isAsync = random.next() < 0.5;
    const ms = random.between(0, LONGEST_MS);
    if (this.#mayPost(webhook)) await this.#request(webhook, ms, isAsync);
  }

  #mayPost(webhook: MintedWebhook): boolean {
    const since = performance.now() - POSTS_MS;
    const used = (this.#used.get(webhook) ?? []).filter((at) => at > since);
    this.#used.set(webhook, used);
    if (used.length >= POSTS) return false;
    used.push(performance.now());
    return true;
  }

  async #request(webhook: MintedWebhook, ms: number, isAsync: boolean): Promise<Post> {
    const { ownerApp: app, secret } = webhook;
    const key = `p-${++this.#count}`;
    const post: Post = { key, app, sentAt: performance.now(), answeredAt: Infinity, outcome: '', runId: null };
    this.posts.push(post);
    const headers = { 'content-type': 'application/json', 'x-host-webhook-secret': secret };
    const answer = await this.#ask(webhook, JSON.stringify({ key, ms }), headers, isAsync ? '?async=1' : '');
    const outcome = outcomeOf(answer);
    Object.assign(post, { outcome, runId: answer?.json.runId ?? null, answeredAt: performance.now() });
    if (outcome === '200' || outcome === '202') this.#acknowledged.step();
    return post;
  }

  /** One message after the other, each signed and sent again, under its id, until the answer says what became of it. */
  async #send(webhook: MintedWebhook): Promise<void> {
    const { ownerApp: app, secret } = webhook;
    const signingKey = Buffer.from(secret.slice('whsec_'.length), 'base64');
    const key = `m-${++this.#count}`;
    const body = JSON.stringify({ key, ms: 5 });
    let definite: Message['outcome'] = 'hung';
    for (const until = performance.now() + HANG_MS; performance.now() < until; await pause(AGAIN_MS)) {
      const timestamp = String(Math.floor(Date.now() / 1000));
      const signature = createHmac('sha256', signingKey).update(`${key}.${timestamp}.${body}`).digest('base64');
      const answer = await this.#ask(webhook, body, {
        'webhook-id': key,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${signature}`,
      });
      if (answer?.status === 200) definite = 'ok';
      else if (answer !== null && /already accepted/.test(answer.text)) definite = 'taken';
      else continue;
      break;
    }
    this.messages.push({ key, app, outcome: definite });
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
