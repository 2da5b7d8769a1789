/** Incoming webhooks: who sends, whether it is their turn, one fire, its answer (specification, "Webhook route"). */
import { hash, timingSafeEqual } from 'node:crypto';
import { type ProvisionedWebhook, provisionedWebhook } from '../../../protocol/automation.ts';
import { errorEnvelope, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { RunRecord } from '../../../protocol/runs.ts';
import type { WebhookResponse } from '../../../protocol/webhook-messages.ts';
import { claimMessage } from '../../../storage/run-rows.ts';
import type { BodyRoom, Exchange } from '../../edge/edge.ts';
import { BEARER } from '../../http/access/access.ts';
import { answerJson } from '../../http/answers.ts';
import type { AutomationCatalog, LiveAutomation } from '../catalog.ts';
import type { Fires } from '../fires/fires.ts';
import { isSignedWith, readWebhookHeaders, webhookKey } from './standard-webhooks.ts';
import { WebhookGate } from './webhook-gate.ts';
import { parseWebhookBody, SECRET_HEADER, webhookRequest } from './webhook-input.ts';

export type WebhooksOptions = {
  catalog: Pick<AutomationCatalog, 'bySlug' | 'onChange'>;
  fires: Pick<Fires, 'start'>;
  /** The key of a signed trigger, `whsec_…`; null when there is none. */
  keyOf(automation: LiveAutomation, slug: string): Promise<string | null>;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds that never go back. */
  monotonic?: () => number;
};

type Hook = { slug: string; automation: LiveAutomation; trigger: ProvisionedWebhook };

/** A request whose sender is known; a signed one was read to be checked. */
type Verified = { body: Buffer; webhookId: string };

const FOREIGN = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; sandbox",
};
const SLUG = /^[A-Za-z0-9_-]+$/;

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #now: () => number;
  readonly #gate: WebhookGate;
  /** By slug. */
  readonly #keys = new Map<string, Buffer>();

  constructor(options: WebhooksOptions) {
    const { catalog, now = Date.now, monotonic = () => performance.now() } = options;
    this.#options = options;
    this.#now = now;
    this.#gate = new WebhookGate(monotonic);
    catalog.onChange(() => {
      this.#gate.retain((slug) => catalog.bySlug(slug) !== undefined);
      this.#keys.clear();
    });
  }

  /** Answers one request, or rejects, checked in the order of decisions, section 6; signed bodies are read before the sender is known. */
  async receive(exchange: Exchange, slug: string): Promise<void> {
    const hook = this.#find(slug);
    let verified: Verified | null = null;
    if (hook.trigger.signing) {
      verified = await this.#verify(exchange, hook);
      if (verified === null) return;
    } else if (!presentsSecret(exchange, hook.trigger.secretHash)) {
      throw this.#gate.fail(slug, unauthorized('Bearer', 'Present the secret of this webhook.'));
    }
    if (!hook.automation.manifest.enabled) {
      answerDisabled(exchange);
      return;
    }
    const isAsync = exchange.query !== '' && new URLSearchParams(exchange.query).get('async') === '1';
    // From here to the release the slug is taken. No await stands between the check and the mark.
    const place = this.#gate.enter(slug);
    try {
      const body = verified?.body ?? (await collectBody(exchange));
      if (body !== null) await this.#fire(exchange, slug, body, verified, isAsync);
    } finally {
      place.release();
    }
  }

  async #fire(
    exchange: Exchange,
    slug: string,
    body: Buffer,
    signed: Verified | null,
    isAsync: boolean,
  ): Promise<void> {
    const input = parseWebhookBody(body);
    // Another version may have become the active one while the body arrived.
    const { automation } = this.#find(slug);
    if (!automation.manifest.enabled) {
      answerDisabled(exchange);
      return;
    }
    const at = this.#now();
    const { run, ended, response } = await this.#options.fires.start({
      automation,
      trigger: { kind: 'webhook', origin: slug },
      at,
      input,
      request: webhookRequest(exchange.headers, body),
      ...(signed && { extra: (runId: string) => claimMessage(slug, signed.webhookId, runId, at) }),
    });
    if (isAsync) answerJson(exchange, 202, { ok: true, runId: run.runId });
    // A sender that has its answer, or has gone away, still holds the slug until then.
    const last = await ended;
    if (isAsync) return;
    const answer = response();
    if (last.state !== 'ok') answerFailedRun(exchange, last);
    else if (answer !== null) answerAs(exchange, answer);
    else answerJson(exchange, 200, { ok: true, runId: run.runId });
  }

  /** The signed body; null when the sender went away. Rejects with `UNAUTHORIZED`, `RATE_LIMITED`, or as `collectBody` does. */
  async #verify(exchange: Exchange, { slug, automation }: Hook): Promise<Verified | null> {
    const refuse = (message: string) => this.#gate.fail(slug, unauthorized('Standard-Webhooks', message));
    const headers = readWebhookHeaders((name) => exchange.header(name), this.#now());
    if ('fault' in headers) throw refuse(headers.fault);
    const bodies = this.#gate.unverified(slug);
    const arriving = {
      received: () => exchange.bodyReceived,
      cutOff: (error: SvcError) => exchange.refuseBody(error),
    };
    bodies.enter(arriving);
    const body = await collectBody(exchange, bodies).finally(() => bodies.leave(arriving));
    if (body === null) return null;
    const key = await this.#keyOf(slug, automation);
    if (key === null) throw new Error(`The signing key of the webhook of ${automation.ref} is missing.`);
    if (!isSignedWith(key, headers, body)) throw refuse('The signature does not match this id, time and body.');
    return { body, webhookId: headers.id };
  }

  /** Kept, so that strangers' requests do not read the key's file again. Another key has another slug. */
  async #keyOf(slug: string, automation: LiveAutomation): Promise<Buffer | null> {
    const known = this.#keys.get(slug);
    if (known !== undefined) return known;
    const key = webhookKey((await this.#options.keyOf(automation, slug)) ?? '');
    if (key !== null) this.#keys.set(slug, key);
    return key;
  }

  #find(slug: string): Hook {
    const automation = SLUG.test(slug) ? this.#options.catalog.bySlug(slug) : undefined;
    const trigger = automation && provisionedWebhook(automation.manifest);
    if (automation && trigger) return { slug, automation, trigger };
    throw new SvcError('NOT_FOUND', 'No automation has a webhook at this address.');
  }
}

/** With what the handler returned. What reads as a page is none of the gateway's: it gets no rights of this origin. */
function answerAs(exchange: Exchange, { status, headers, body }: WebhookResponse): void {
  exchange.send(status, { ...headers, ...FOREIGN }, body);
}

function answerDisabled(exchange: Exchange): void {
  answerJson(exchange, 200, { ok: false, skipped: 'automation disabled' });
}

/** The one error shape for a run that did not succeed, with the run's id beside the error. */
export function answerFailedRun(exchange: Exchange, { runId, state, error }: RunRecord): void {
  const failure = error ?? { code: 'RUN_ABORTED', message: `The run ended as "${state}".` };
  answerJson(exchange, 500, { ...errorEnvelope(failure), runId });
}

function unauthorized(scheme: string, message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message, { headers: { 'www-authenticate': scheme } });
}

/**
 * Whether the request presents the secret, either as a Bearer token or in `x-host-webhook-secret`; `secretHash` is its
 * SHA-256 in hex. Digests are compared, in constant time: neither what is wrong with a secret nor its length shows.
 */
function presentsSecret(exchange: Exchange, secretHash: string): boolean {
  const expected = Buffer.from(secretHash, 'hex');
  const presented = [BEARER.exec(exchange.header('authorization') ?? '')?.[1], exchange.header(SECRET_HEADER)];
  return presented.some((secret) => {
    const digest = hash('sha256', secret ?? '', 'buffer');
    return secret !== undefined && digest.length === expected.length && timingSafeEqual(digest, expected);
  });
}

/**
 * The body's bytes; null when the sender went away before they were complete. Rejects with `PAYLOAD_TOO_LARGE` over
 * `LIMITS.webhookBodyBytes`, and as `readBody` does. Must be called in the turn in which the exchange was handed over.
 */
function collectBody(exchange: Exchange, room?: BodyRoom): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    exchange.onAbort(() => resolve(null));
    exchange.readBody(LIMITS.webhookBodyBytes, resolve, reject, room);
  });
}
