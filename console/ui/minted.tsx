/** Webhooks that a publication made: their addresses, and secrets, which no other answer has, until the user has kept them. */
import { useEffect, useId, useReducer, useRef } from 'preact/hooks';
import type { Received } from '../../protocol/routes/api.ts';
import { hrefOf } from '../address.ts';
import { CopyField } from './copy.tsx';
import { Button } from './parts.tsx';

type NewWebhook = Received<'POST /svc/_automations/_provision'>['webhooks'][number];

/** App → webhooks that the user has not confirmed yet: leaving a view must not lose a secret. */
const unkept = new Map<string, readonly NewWebhook[]>();
const watchers = new Set<() => void>();

function change(app: string, webhooks: readonly NewWebhook[]): void {
  unkept.set(app, webhooks);
  for (const watcher of watchers) watcher();
}

/** Requests under way that may answer with a secret. */
let asked = 0;

/** Awaits an answer that may have a secret: the browser asks before it leaves the page meanwhile. */
export async function keeping<T>(answer: Promise<T>): Promise<T> {
  asked++;
  try {
    return await answer;
  } finally {
    asked--;
  }
}

addEventListener('beforeunload', (event) => {
  const isUnkept = [...unkept.values()].flat().some((webhook) => 'secret' in webhook);
  if (asked > 0 || isUnkept) event.preventDefault();
});

/** Draws again when there are others. */
function useUnkept(): ReadonlyMap<string, readonly NewWebhook[]> {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const drawn = () => draw(undefined);
    watchers.add(drawn);
    return () => void watchers.delete(drawn);
  }, []);
  return unkept;
}

/** Leads from views of other things to the apps whose secrets wait. */
export function MintedElsewhere({ shown }: { shown: string | undefined }) {
  const apps = [...useUnkept()].filter(([app, webhooks]) => app !== shown && webhooks.length > 0);
  if (apps.length === 0) return null;
  return (
    <p class="minted" role="status">
      <span>
        A new webhook waits for you to keep its secret:{' '}
        {apps.map(([app], at) => (
          <span key={app}>
            {at > 0 && ', '}
            <a href={hrefOf(['apps', app])}>{app}</a>
          </span>
        ))}
      </span>
    </p>
  );
}

/** Shows them in every view of the app that has `Minted`. With `renewed` they replace earlier ones of the same automations, which no longer work. */
export function showMinted(app: string, webhooks: readonly NewWebhook[], { renewed = false } = {}): void {
  if (webhooks.length === 0) return;
  const isDead = (one: NewWebhook) => renewed && webhooks.some(({ automationId }) => automationId === one.automationId);
  change(app, [...(unkept.get(app) ?? []).filter((one) => !isDead(one)), ...webhooks]);
}

/** `onKept` is called before they disappear, and moves the focus. */
export function Minted({ app, onKept }: { app: string; onKept?: () => void }) {
  const section = useRef<HTMLElement>(null);
  const id = useId();
  const webhooks = useUnkept().get(app) ?? [];
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
          If you lose it, create another with{' '}
          {webhooks
            .filter((webhook) => 'secret' in webhook)
            .map(({ ownerApp, automationId }, at) => (
              <span key={automationId}>
                {at > 0 && ' or '}
                <code>{`svc automations provision ${ownerApp}/${automationId} --renew`}</code>
              </span>
            ))}
          .
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
