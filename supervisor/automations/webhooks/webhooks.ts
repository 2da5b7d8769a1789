/** Receives webhooks: verifies the sender, applies limits, fires once, answers (specification, "Webhook requests"). */
import { hash, randomBytes } from 'node:crypto';
import {
  type ProvisionedWebhook,
  provisionedWebhook,
  type WebhookVerify,
} from '../../../protocol/automations/automation.ts';
import type { RunRecord } from '../../../protocol/automations/runs.ts';
import type { WebhookResponse } from '../../../protocol/automations/webhook-messages.ts';
import { errorEnvelope, movedError, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { claimMessage } from '../../../storage/automations/run-rows.ts';
import type { BodyRoom, Exchange } from '../../edge/edge.ts';
import { answerJson } from '../../http/answers.ts';
import { type Secrets, unknownSecret } from '../../secrets.ts';
import type { AutomationCatalog, LiveAutomation } from '../catalog.ts';
import type { Fires, StartedRun } from '../fires/fires.ts';
import { webhookKey } from './standard-webhooks.ts';
import { isSecret, type Proof, readProof, type SignedVerify } from './verification.ts';
import { WebhookGate } from './webhook-gate.ts';
import { SECRET_HEADER, slackChallenge, webhookInput, webhookRequest } from './webhook-input.ts';

export type WebhooksOptions = {
  catalog: Pick<AutomationCatalog, 'bySlug' | 'holderOf' | 'onChange'>;
  fires: Pick<Fires, 'start'>;
  /** The minted key of a signed trigger, `whsec_…`; null when there is none. */
  keyOf(automation: LiveAutomation, slug: string): Promise<string | null>;
  secrets: Pick<Secrets, 'get'>;
  /** One line of JSON for an app's log. */
  appLog(app: string, line: string): void;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds that never go back. */
  monotonic?: () => number;
};

type Hook = { slug: string; automation: LiveAutomation; trigger: ProvisionedWebhook };

/** A request whose sender is known; it was read to be checked. */
type Signed = { body: Buffer; proof: Proof };

/** For how long a message that is signed with a minted key is valid: its time may be that far off, to either side. */
const SIGNED_MS = 2 * LIMITS.webhookToleranceMs;

const FOREIGN = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; sandbox",
};
/** Any characters: an app's secret may be what a service made, or a person. */
const BEARER = /^bearer +(.+)$/i;
const SLUG = /^[A-Za-z0-9_-]+$/;

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #now: () => number;
  readonly #gate: WebhookGate;
  /** By slug. */
  readonly #keys = new Map<string, string>();
  /** Stands in for a secret that an app does not have. */
  readonly #nobodys = randomBytes(32).toString('base64');
  /** Slugs for which the log says that their secret is missing. */
  readonly #reportedSlugs = new Set<string>();

  constructor(options: WebhooksOptions) {
    const { catalog, now = Date.now, monotonic = () => performance.now() } = options;
    this.#options = options;
    this.#now = now;
    this.#gate = new WebhookGate(monotonic);
    catalog.onChange(() => {
      this.#gate.retain((slug) => catalog.bySlug(slug) !== undefined);
      this.#keys.clear();
      this.#reportedSlugs.clear();
    });
  }

  /** Answers one request, or rejects, checked in order (specification, "Webhook requests"); signed bodies are read before the sender is known. */
  async receive(exchange: Exchange, slug: string): Promise<void> {
    const hook = this.#find(slug);
    const verify = verifyOf(hook.trigger);
    let signed: Signed | null = null;
    if (verify === 'bearer') {
      if (!presentsSecret(exchange, this.#hashOf(hook)))
        throw this.#gate.fail(slug, unauthorized('Bearer', 'Present the secret of this webhook.'));
    } else {
      signed = await this.#verify(exchange, hook, verify);
      if (signed === null) return;
      const challenge = verify === 'slack' ? slackChallenge(signed.body) : null;
      if (challenge !== null) {
        answerAs(exchange, { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: challenge });
        return;
      }
    }
    if (!hook.automation.manifest.enabled) {
      answerDisabled(exchange);
      return;
    }
    const isAsync = exchange.query !== '' && new URLSearchParams(exchange.query).get('async') === '1';
    // From here to the release the slug is taken. No await stands between the check and the mark.
    const place = this.#gate.enter(slug);
    try {
      const body = signed?.body ?? (await collectBody(exchange));
      if (body !== null) await this.#fire(exchange, hook, { body, proof: signed?.proof ?? null }, isAsync);
    } finally {
      place.release();
    }
  }

  async #fire(
    exchange: Exchange,
    { slug, trigger }: Hook,
    { body, proof }: { body: Buffer; proof: Proof | null },
    isAsync: boolean,
  ): Promise<void> {
    const request = webhookRequest(exchange.headers, body);
    const verify = 'verify' in trigger ? trigger.verify : null;
    const input = webhookInput(body, request.contentType, verify);
    const deliveryId = proof === null ? null : proof.deliveryId(input, body);
    // Another version may have become the active one while the body arrived.
    const { automation } = this.#find(slug);
    if (!automation.manifest.enabled) {
      answerDisabled(exchange);
      return;
    }
    const at = this.#now();
    const keptMs = verify === null ? SIGNED_MS : LIMITS.webhookDeliveryMs;
    const claim = (id: string) => ({ extra: (runId: string) => claimMessage(slug, id, runId, at, keptMs) });
    let started: StartedRun;
    try {
      started = await this.#options.fires.start({
        automation,
        trigger: { kind: 'webhook', origin: slug },
        at,
        input,
        request,
        ...(deliveryId !== null && claim(deliveryId)),
      });
    } catch (error) {
      // Services take every answer that is none of success for a failure, and go on sending.
      if (verify === null || !(error instanceof SvcError && error.code === 'CONFLICT')) throw error;
      answerJson(exchange, 200, { ok: true, duplicate: true });
      return;
    }
    const { run, ended, response } = started;
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
  async #verify(exchange: Exchange, hook: Hook, verify: SignedVerify): Promise<Signed | null> {
    const { slug, automation, trigger } = hook;
    const scheme = verify === 'standard' ? 'Standard-Webhooks' : 'Signature';
    const refuse = (message: string) => this.#gate.fail(slug, unauthorized(scheme, message));
    const proof = readProof(verify, (name) => exchange.header(name), this.#now());
    if ('fault' in proof) throw refuse(proof.fault);
    const bodies = this.#gate.unverified(slug);
    const arriving = {
      received: () => exchange.bodyReceived,
      cutOff: (error: SvcError) => exchange.refuseBody(error),
    };
    bodies.enter(arriving);
    const body = await collectBody(exchange, bodies).finally(() => bodies.leave(arriving));
    if (body === null) return null;
    const secret = 'verify' in trigger ? this.#secretOf(hook, trigger.secret) : await this.#keyOf(slug, automation);
    if (secret === null) throw new Error(`The signing key of the webhook of ${automation.ref} is missing.`);
    if (!proof.isMadeWith(secret, body)) throw refuse('The signature does not match this request.');
    return { body, proof };
  }

  /** Headers with the secret of a sender. */
  #hashOf(hook: Hook): string {
    const { trigger } = hook;
    return 'verify' in trigger ? hash('sha256', this.#secretOf(hook, trigger.secret)) : trigger.secretHash;
  }

  /** Without a secret, a random one: senders learn no more than from a wrong one, and the log tells the owner what to do. */
  #secretOf({ slug, automation }: Hook, name: string): string {
    const found = senderSecret(this.#options.secrets, automation.app, name);
    if ('value' in found) {
      this.#reportedSlugs.delete(slug);
      return found.value;
    }
    if (!this.#reportedSlugs.has(slug)) {
      this.#reportedSlugs.add(slug);
      const { app, id, ref, versionId } = automation;
      const head = { ts: new Date(this.#now()).toISOString(), level: 'error', app, versionId, tool: id };
      const msg = `The webhook of ${ref} refuses every request: ${found.problem}`;
      this.#options.appLog(app, JSON.stringify({ ...head, msg }));
    }
    return this.#nobodys;
  }

  /** Kept, so that strangers' requests do not read the key's file again. Another key has another slug. */
  async #keyOf(slug: string, automation: LiveAutomation): Promise<string | null> {
    const known = this.#keys.get(slug);
    if (known !== undefined) return known;
    const key = await this.#options.keyOf(automation, slug);
    if (key === null || webhookKey(key) === null) return null;
    this.#keys.set(slug, key);
    return key;
  }

  #find(slug: string): Hook {
    const automation = SLUG.test(slug) ? this.#options.catalog.bySlug(slug) : undefined;
    const trigger = automation && provisionedWebhook(automation.manifest);
    if (automation && trigger) return { slug, automation, trigger };
    if (this.#options.catalog.holderOf(slug) !== undefined) throw movedError();
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

/** Whether the request presents the secret, either as a Bearer token or in `x-host-webhook-secret`; `secretHash` as for `isSecret`. */
function presentsSecret(exchange: Exchange, secretHash: string): boolean {
  const presented = [BEARER.exec(exchange.header('authorization') ?? '')?.[1], exchange.header(SECRET_HEADER)];
  return presented.some((secret) => isSecret(secret, secretHash));
}

/** The value of the app's secret that a sender has too, or in words for the owner why there is none. */
export function senderSecret(
  secrets: Pick<Secrets, 'get'>,
  app: string,
  name: string,
): { value: string } | { problem: string } {
  try {
    const value = secrets.get(app, name);
    return value === undefined ? { problem: unknownSecret(app, name).message } : { value };
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { problem: error.message };
  }
}

function verifyOf(trigger: ProvisionedWebhook): WebhookVerify {
  if ('verify' in trigger) return trigger.verify;
  return trigger.signing ? 'standard' : 'bearer';
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
