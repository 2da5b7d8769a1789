/** Webhooks that a publication made: their addresses, and secrets, which no other answer has, until the user has kept them. */
import { useEffect, useId, useReducer, useRef } from 'preact/hooks';
import type { NewWebhook } from '../../protocol/automations/automation.ts';
import { CopyField } from './copy.tsx';
import { Button } from './parts.tsx';

/** App → webhooks that the user has not confirmed yet: leaving a view must not lose a secret. */
const unkept = new Map<string, readonly NewWebhook[]>();
const watchers = new Set<() => void>();

function change(app: string, webhooks: readonly NewWebhook[]): void {
  unkept.set(app, webhooks);
  for (const watcher of watchers) watcher();
}

/** Shows them in every view of the app that has `Minted`. With `renewed` they replace earlier ones of the same automations, which no longer work. */
export function showMinted(app: string, webhooks: readonly NewWebhook[], { renewed = false } = {}): void {
  if (webhooks.length === 0) return;
  const isDead = (one: NewWebhook) => renewed && webhooks.some(({ automationId }) => automationId === one.automationId);
  change(app, [...(unkept.get(app) ?? []).filter((one) => !isDead(one)), ...webhooks]);
}

/** `onKept` is called before they disappear, and moves the focus. */
export function Minted({ app, onKept }: { app: string; onKept?: () => void }) {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const section = useRef<HTMLElement>(null);
  const id = useId();
  useEffect(() => {
    const drawn = () => draw(undefined);
    watchers.add(drawn);
    return () => void watchers.delete(drawn);
  }, []);
  const webhooks = unkept.get(app) ?? [];
  useEffect(() => {
    if (webhooks.length > 0) section.current?.focus();
  }, [webhooks.length]);
  if (webhooks.length === 0) return null;
  const hasSecret = webhooks.some((webhook) => 'secret' in webhook);
  return (
    <section ref={section} class="minted" aria-labelledby={id} tabindex={-1}>
      <h2 id={id}>{hasSecret ? 'Keep the secret now: it is not shown again' : 'New webhooks'}</h2>
      <ul>
        {webhooks.map((webhook) => {
          const ref = `${webhook.ownerApp}/${webhook.automationId}`;
          return (
            <li key={webhook.webhookId}>
              <b>{ref}</b>
              <CopyField name="Address" value={webhook.url} of={ref} />
              {'secret' in webhook ? (
                <CopyField name="Secret" value={webhook.secret} of={ref} />
              ) : (
                <span class="hint">Its sender needs the app's secret {webhook.secretName}.</span>
              )}
            </li>
          );
        })}
      </ul>
      {hasSecret && (
        <p class="hint">
          If you lose it, create another with <code>svc automations provision &lt;ref&gt; --renew</code>.
        </p>
      )}
      <div class="line">
        <Button
          class="small"
          onClick={() => {
            onKept?.();
            change(app, []);
          }}
        >
          I have kept it
        </Button>
      </div>
    </section>
  );
}
