/** Who may call a new webhook: a program with a secret that the gateway makes, or a service that signs with one of its own. */
import type { PendingWebhook } from '../../protocol/automations/automation.ts';
import { Field } from '../ui/parts.tsx';

/** What each sender proves itself with; `secret` is what an app's secret for it is usually called. */
const SENDERS = {
  secret: { text: 'A program of mine, with a secret' },
  signed: { text: 'A program of mine that signs (Standard Webhooks)' },
  github: { text: 'GitHub, Gitea or Forgejo', secret: 'GITHUB_SECRET' },
  stripe: { text: 'Stripe', secret: 'STRIPE_SECRET' },
  slack: { text: 'Slack', secret: 'SLACK_SECRET' },
  standard: { text: 'Another service with Standard Webhooks', secret: 'WEBHOOK_SECRET' },
} as const;
type Kind = keyof typeof SENDERS;

/** `secret` is the name of an app's secret, for services. */
export type Sender = { kind: Kind; secret: string };

export const newSender: Sender = { kind: 'secret', secret: '' };

export function webhookOf({ kind, secret }: Sender): PendingWebhook {
  if (kind === 'secret') return { kind: 'webhook', pending: true };
  if (kind === 'signed') return { kind: 'webhook', pending: true, signing: true };
  return { kind: 'webhook', pending: true, verify: kind, secret };
}

type Props = { app: string; sender: Sender; onChange: (next: Sender) => void };

export function SenderFields({ app, sender, onChange }: Props) {
  const { kind, secret } = sender;
  const isService = 'secret' in SENDERS[kind];
  return (
    <div class="stack">
      <div class="schedule-row">
        <Field label="Who calls it">
          <select
            value={kind}
            onChange={({ currentTarget }) => {
              const next = currentTarget.value as Kind;
              const sent = SENDERS[next];
              onChange({ kind: next, secret: 'secret' in sent ? sent.secret : '' });
            }}
          >
            {Object.entries(SENDERS).map(([id, { text }]) => (
              <option key={id} value={id}>
                {text}
              </option>
            ))}
          </select>
        </Field>
        {isService && (
          <Field label="Secret of the app">
            <input
              class="mono"
              required
              pattern="[A-Za-z_][A-Za-z0-9_]*"
              title="Letters, digits and underscores"
              spellcheck={false}
              value={secret}
              onInput={({ currentTarget }) => onChange({ kind, secret: currentTarget.value })}
            />
          </Field>
        )}
      </div>
      <p class="hint">
        {isService ? (
          <>
            Publishing shows the address to enter at the service. Its secret is set in the app’s settings, or with{' '}
            <code>
              svc secret set {app} {secret}
            </code>
            .
          </>
        ) : (
          'Publishing shows the address and the secret, once. The page of the automation has a test call.'
        )}
      </p>
    </div>
  );
}
