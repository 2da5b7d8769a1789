/** Incoming webhooks: who sends, whether it is their turn, one fire, its answer (specification, "Webhook route"). */
import type { ProvisionedWebhook } from '../../../protocol/automation.ts';
import { type ErrorBody, errorEnvelope, SvcError } from '../../../protocol/errors.ts';
import type { SqlStatement } from '../../../protocol/frames.ts';
import type { RunRecord, RunTrigger } from '../../../protocol/runs.ts';
import type { Exchange } from '../../edge/edge.ts';
import { answerJson } from '../../http/answers.ts';
import type { LiveAutomation } from '../catalog.ts';
import { isSignedWith, readWebhookHeaders, webhookKey } from './standard-webhooks.ts';
import { WebhookGate } from './webhook-gate.ts';
import { collectBody, collectUnverified, parseWebhookBody, presentsSecret } from './webhook-request.ts';

/** One signed message as its sender names it. */
export type WebhookMessage = { slug: string; webhookId: string };

export type WebhooksOptions = {
  catalog: {
    bySlug(slug: string): LiveAutomation | undefined;
    onChange(listener: (app: string) => void): void;
  };
  fires: {
    /**
     * Resolves when the run is stored; `ended` never rejects. `extra` gives the statements that are stored with it, or not at
     * all; rejects with `CONFLICT` when they claim a message that was taken before.
     */
    start(request: {
      automation: LiveAutomation;
      trigger: RunTrigger;
      at: number;
      input: unknown;
      extra?: (runId: string) => SqlStatement[];
    }): Promise<{ run: RunRecord; ended: Promise<RunRecord> }>;
  };
  /** The statements that take a signed message for a run; one whose run failed may come again. */
  claimMessage(message: WebhookMessage, runId: string, now: number): SqlStatement[];
  /** The key of a signed trigger, `whsec_…`; null when there is none. */
  keyOf(automation: LiveAutomation): Promise<string | null>;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds that never go back. */
  monotonic?: () => number;
};

type Hook = { slug: string; automation: LiveAutomation; trigger: ProvisionedWebhook };

/** A request whose sender is known; a signed one was read to be checked. */
type Verified = { body: Buffer; webhookId: string };

const SLUG = /^[A-Za-z0-9_-]+$/;

/** How a run that was not completed is told to the sender, where nothing else is known about it. */
const ENDINGS: Partial<Record<RunRecord['state'], string>> = {
  aborted: 'The run was cancelled.',
  interrupted: 'The gateway stopped in the middle of the run.',
  skipped: 'The run was skipped, because an earlier one was still going.',
};

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

  /**
   * Answers one request. Rejects with what it is refused with, checked in the order of decisions, section 6; a signed
   * request is read before its sender is known, and has its turn after that.
   */
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
      if (body !== null) await this.#fire(exchange, slug, body, verified?.webhookId, isAsync);
    } finally {
      place.release();
    }
  }

  async #fire(
    exchange: Exchange,
    slug: string,
    body: Buffer,
    webhookId: string | undefined,
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
    const { claimMessage } = this.#options;
    const { run, ended } = await this.#options.fires.start({
      automation,
      trigger: { kind: 'webhook', origin: slug },
      at,
      input,
      ...(webhookId === undefined ? {} : { extra: (runId) => claimMessage({ slug, webhookId }, runId, at) }),
    });
    if (isAsync) answerJson(exchange, 202, { ok: true, runId: run.runId });
    // A sender that has its answer, or has gone away, still holds the slug until then.
    const last = await ended;
    if (!isAsync) answerEnd(exchange, last);
  }

  /** The signed body. Null when the sender went away. Rejects with `UNAUTHORIZED`, `RATE_LIMITED` or what `collectBody` does. */
  async #verify(exchange: Exchange, { slug, automation }: Hook): Promise<Verified | null> {
    const refuse = (message: string) => this.#gate.fail(slug, unauthorized('Standard-Webhooks', message));
    const headers = readWebhookHeaders((name) => exchange.header(name), this.#now());
    if ('fault' in headers) throw refuse(headers.fault);
    const body = await collectUnverified(exchange, this.#gate.unverified(slug));
    if (body === null) return null;
    const key = await this.#keyOf(slug, automation);
    if (key === null) throw new Error(`The signing key of the webhook of ${automation.ref} is missing.`);
    if (!isSignedWith(key, headers, body)) throw refuse('The signature does not match this id, time and body.');
    return { body, webhookId: headers.id };
  }

  /** Kept, so that what anybody sends has the key's file read once only. Another key has another slug. */
  async #keyOf(slug: string, automation: LiveAutomation): Promise<Buffer | null> {
    const known = this.#keys.get(slug);
    if (known !== undefined) return known;
    const key = webhookKey((await this.#options.keyOf(automation)) ?? '');
    if (key !== null) this.#keys.set(slug, key);
    return key;
  }

  #find(slug: string): Hook {
    const automation = SLUG.test(slug) ? this.#options.catalog.bySlug(slug) : undefined;
    for (const trigger of automation?.manifest.triggers ?? []) {
      if (automation && trigger.kind === 'webhook' && 'id' in trigger && trigger.id === slug) {
        return { slug, automation, trigger };
      }
    }
    throw new SvcError('NOT_FOUND', 'No automation has a webhook at this address.');
  }
}

function answerDisabled(exchange: Exchange): void {
  answerJson(exchange, 200, { ok: false, skipped: 'automation disabled' });
}

/** The one error shape for a run that did not succeed, with the run's id beside the error. */
function answerEnd(exchange: Exchange, { runId, state, error }: RunRecord): void {
  if (state === 'ok') {
    answerJson(exchange, 200, { ok: true, runId });
    return;
  }
  const failure: ErrorBody = error ?? { code: 'HANDLER_ERROR', message: ENDINGS[state] ?? 'The run failed.' };
  answerJson(exchange, 500, { ...errorEnvelope(failure), runId });
}

function unauthorized(scheme: string, message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message, { headers: { 'www-authenticate': scheme } });
}
