/** What to do with an app that is new: each step leads to where it is done. Gone once all are done, or when it is hidden. */
import { useState } from 'preact/hooks';
import { route } from '../../protocol/http/addresses.ts';
import { hrefOf } from '../address.ts';
import { Button, Card } from '../ui/parts.tsx';
import type { AppDetail } from './views.ts';

const NEW_MS = 7 * 86_400_000;
const STEPS = ['open', 'edit', 'ask', 'share'] as const;
type Step = (typeof STEPS)[number];

/** By app: where the browser keeps nothing, they last as long as the page. */
const memory = new Map<string, readonly Step[]>();
const keyOf = ({ id, registeredAt }: AppDetail): string => `svc-console:steps:${id}:${registeredAt}`;

function readDone(app: AppDetail): readonly Step[] {
  const known = memory.get(keyOf(app));
  if (known !== undefined) return known;
  try {
    const kept = localStorage.getItem(keyOf(app))?.split(' ') ?? [];
    return STEPS.filter((step) => kept.includes(step));
  } catch {
    return [];
  }
}

function keepDone(app: AppDetail, done: readonly Step[]): void {
  memory.set(keyOf(app), done);
  try {
    localStorage.setItem(keyOf(app), done.join(' '));
  } catch {
    // `memory` has them.
  }
}

export function FirstSteps({ app }: { app: AppDetail }) {
  const [done, setDone] = useState(() => readDone(app));
  const finish = (...steps: readonly Step[]) => {
    const all = STEPS.filter((step) => done.includes(step) || steps.includes(step));
    keepDone(app, all);
    setDone(all);
  };
  if (done.length === STEPS.length || Date.now() - app.registeredAt > NEW_MS) return null;
  const rows: Record<Step, [text: string, about: string, href: string]> = {
    open: ['Open it', 'Its page, in this window.', route`/svc/${app.id}/`],
    edit: ['Change it', 'Its files, in a draft with a preview.', hrefOf(['apps', app.id, 'code'])],
    ask: ['Ask an agent', 'Talk about it, with its page beside.', hrefOf(['apps', app.id, 'chat'])],
    share: [
      'Share it',
      'With a person, a group, or everyone.',
      hrefOf(['apps', app.id, 'settings'], { part: 'sharing' }),
    ],
  };
  return (
    <Card
      class="first-steps"
      title="First steps"
      aside={
        <Button class="small" onClick={() => finish(...STEPS)}>
          Hide
        </Button>
      }
    >
      <ol>
        {STEPS.map((step) => {
          const [text, about, href] = rows[step];
          return (
            <li key={step} data-done={done.includes(step)}>
              <a href={href} onClick={() => finish(step)}>
                {text}
              </a>
              <span class="hint">{done.includes(step) ? 'Done' : about}</span>
            </li>
          );
        })}
      </ol>
    </Card>
  );
}
