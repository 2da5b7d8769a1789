/** Problems that need attention, each with its reason and the next step. Draws nothing if there are none. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { AppRecord, ShownRun } from '../../protocol/answer-types.ts';
import { outcomeOf } from '../../protocol/automations/runs.ts';
import type { RowIn } from '../../protocol/routes/api.ts';
import { hrefOf } from '../address.ts';
import { restartApp } from '../app/restart-app.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { nameOfRun, runHref } from '../runs/run-words.ts';
import { notifyProblem } from '../ui/notice.tsx';
import { Button } from '../ui/parts.tsx';
import { ago, ahead, bytes, plural } from '../words.ts';

const READ_MS = 30_000;
const DAY_MS = 86_400_000;
const SHOWN = 6;
/** A disk is nearly full below this, and below this share of it. */
const LEAST_BYTES = 2 ** 30;
const LEAST_SHARE = 0.05;

type Token = RowIn<'GET /svc/_tokens'>;
/** `failed` has the failed runs of the last day for each automation that has not succeeded since. */
type Read = { failed: ShownRun[][]; tokens: Token[] };

async function read(signal: AbortSignal): Promise<Read> {
  const [failed, tokens] = await Promise.all([
    gateway.call('GET /svc/_runs', { query: { failing: '1', limit: 500 } }, { signal }),
    gateway.call('GET /svc/_tokens', {}, { signal }),
  ]);
  return { failed: [...Map.groupBy(failed, ({ ref }) => ref).values()], tokens };
}

/** `tone` is `warn` where nothing is broken yet. */
type Item = { key: string; text: ComponentChildren; act?: ComponentChildren; tone?: 'warn' };

export function Attention({ apps }: { apps: readonly AppRecord[] }) {
  const { system } = useGateway();
  const { value } = usePolled(read, 'attention', READ_MS);
  const [isOpen, setOpen] = useState(false);
  const items = [
    ...damaged(apps),
    ...quarantined(apps, system),
    ...disk(system),
    ...backup(system),
    ...failures(value?.failed),
    ...expiring(value?.tokens),
  ];
  if (items.length === 0) return null;
  return (
    <section class="card attention" aria-label="Needs attention">
      <h2>Needs attention</h2>
      <ul>
        {items.slice(0, isOpen ? undefined : SHOWN).map(({ key, text, act, tone }) => (
          <li key={key} data-tone={tone}>
            <span>{text}</span>
            {act}
          </li>
        ))}
      </ul>
      {items.length > SHOWN && (
        <Button kind="link" onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show fewer' : `${items.length - SHOWN} more`}
        </Button>
      )}
    </section>
  );
}

type System = ReturnType<typeof useGateway>['system'];

function damaged(apps: readonly AppRecord[]): Item[] {
  return apps.flatMap(({ id, name, damage }) =>
    damage === undefined
      ? []
      : {
          key: `data ${id}`,
          text: (
            <>
              The data of <a href={hrefOf(['apps', id])}>{name}</a> is damaged.
              <span class="hint reason">{damage}</span>
            </>
          ),
        },
  );
}

function quarantined(apps: readonly AppRecord[], system: System): Item[] {
  const actors = system?.processes.flatMap(({ actors = [] }) => actors) ?? [];
  return apps
    .filter(({ status }) => status === 'quarantined')
    .map(({ id, name }) => {
      const reason = actors.find(({ app, state }) => app === id && state === 'quarantined')?.lastExit;
      return {
        key: `app ${id}`,
        text: (
          <>
            <a href={hrefOf(['apps', id])}>{name}</a> is quarantined: it crashed too often.
            {reason && <span class="hint reason">Last: {reason}</span>}
          </>
        ),
        act: <Restart id={id} name={name} />,
      };
    });
}

function Restart({ id, name }: { id: string; name: string }) {
  const { reload } = useGateway();
  const [isWaiting, setWaiting] = useState(false);
  const restart = async () => {
    setWaiting(true);
    try {
      await restartApp({ id, name });
      reload();
    } catch (error) {
      notifyProblem(error);
    }
    setWaiting(false);
  };
  return (
    <Button class="small" disabled={isWaiting} aria-label={`Restart ${name}`} onClick={() => void restart()}>
      Restart
    </Button>
  );
}

export function isDiskNearlyFull(system: System): boolean {
  if (!system?.disk) return false;
  const { freeBytes, sizeBytes } = system.disk;
  return freeBytes < LEAST_BYTES || freeBytes < sizeBytes * LEAST_SHARE;
}

function disk(system: System): Item[] {
  if (!system?.disk || !isDiskNearlyFull(system)) return [];
  const { freeBytes, sizeBytes } = system.disk;
  return [
    {
      key: 'disk',
      text: `The disk of the gateway is nearly full: ${bytes(freeBytes)} of ${bytes(sizeBytes)} are free.`,
    },
  ];
}

/** Shown from a failure until the next good backup. */
function backup(system: System): Item[] {
  const { state, lastFailure } = system?.backups ?? {};
  if (state !== 'failed' || !lastFailure) return [];
  return [
    {
      key: 'backup',
      text: (
        <>
          The last backup failed {ago(lastFailure.at)}: <span class="hint reason">{lastFailure.message}</span>
        </>
      ),
      act: (
        <a class="button small" href={hrefOf(['system', 'backups'])} aria-label="Show backups">
          Show
        </a>
      ),
    },
  ];
}

function failures(failed: Read['failed'] = []): Item[] {
  return failed.map((runs) => {
    const latest = runs[0]!;
    const { ref } = latest;
    const times = runs.length > 1 ? `, ${plural(runs.length, 'time')} in a day` : '';
    return {
      key: `run ${ref}`,
      text: (
        <>
          <b>{nameOfRun(latest)}</b> failed {ago(latest.endedAt ?? latest.queuedAt)}
          {times}: <span class="hint reason">{outcomeOf(latest)}</span>
        </>
      ),
      act: (
        <a class="button small" href={runHref(latest.runId)} aria-label={`Show the failed run of ${nameOfRun(latest)}`}>
          Show
        </a>
      ),
    };
  });
}

function expiring(tokens: readonly Token[] = []): Item[] {
  return tokens.flatMap(({ id, name, expiresAt }) =>
    expiresAt !== null && expiresAt > Date.now() && expiresAt - Date.now() < 7 * DAY_MS
      ? [{ key: `token ${id}`, text: `The token “${name}” of a program expires ${ahead(expiresAt)}.`, tone: 'warn' }]
      : [],
  );
}
