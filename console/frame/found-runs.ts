/** Finds runs by what somebody remembers of them: the automation, the app, how it ended, the beginning of the id. */
import { useEffect, useState } from 'preact/hooks';
import type { AppRecord, AutomationRow, ShownRun } from '../../protocol/answer-types.ts';
import { RUN_STATES } from '../../protocol/automations/run-states.ts';
import { CHAT_RUNS } from '../../protocol/automations/runs.ts';
import type { Sent } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { runHref } from '../runs/run-words.ts';
import { ago } from '../words.ts';
import { type Entry, fits, wordsOf } from './palette-entries.ts';

/** From the last key until the gateway is asked. */
const PAUSE_MS = 150;
/** Runs that one search reads, in which it looks for the words. */
const READ = 50;
const SHOWN = 5;

/** Other words that people use for states. */
const ALSO: Partial<Record<ShownRun['state'], string>> = {
  ok: 'succeeded done',
  error: 'failed failure',
  aborted: 'cancelled canceled',
};

const ID = /^(?=.*\d)[0-9a-f]{6,8}(?:-[0-9a-f]{0,4}(?:-[0-9a-f]{0,4}){0,2}(?:-[0-9a-f]{0,12})?)?$/;
const ANY_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

type Known = { apps: readonly AppRecord[]; automations: readonly AutomationRow[] };

/** The run of an id, or the latest ones that a filter leaves. */
type Meant = { runId: string } | { query: Sent<'GET /svc/_runs'>['query'] };

/** The runs that the words may mean, by the narrowest filter that the words identify. The other words are looked for in the answer. */
function meantBy(words: readonly string[], { apps, automations }: Known): Meant {
  const [whole = ''] = words;
  if (words.length === 1 && whole.length === ANY_ID.length && ID.test(whole)) return { runId: whole };
  const limit = words.length === 0 ? SHOWN : READ;
  const isName = (word: string) =>
    [...apps.map(({ id, name }) => ({ text: name, aside: id })), ...automations.map((row) => entryOfRow(row, []))].some(
      (entry) => fits(entry, [word]),
    );
  const state = RUN_STATES.find((one) => words.some((word) => isState(one, word) && !isName(word)));
  const rest = words.filter((word) => !state || !isState(state, word));
  const named = rest.length === 0 ? [] : automations.filter((row) => fits(entryOfRow(row, apps), rest));
  const owners = new Set(named.map(({ app }) => app));
  const meant = apps.filter(({ id, name }) => rest.some((word) => word === id || word === name.toLowerCase()));
  const [only] = named;
  if (only && named.length === 1 && meant.length === 0) return { query: { limit, state, ref: only.ref } };
  if (meant.length === 1) return { query: { limit, state, app: meant[0]!.id } };
  if (only && owners.size === 1) return { query: { limit, state, app: only.app } };
  // Ids begin with their time: those with this beginning follow the last that could have it.
  const id = rest.find((word) => ID.test(word));
  return { query: { limit, state, before: id && id + ANY_ID.slice(id.length) } };
}

const isState = (state: ShownRun['state'], word: string): boolean =>
  `${state} ${ALSO[state] ?? ''}`
    .split(' ')
    .some((name) => name === word || (word.length > 3 && name.startsWith(word)));

const nameOf = (id: string, apps: readonly AppRecord[]): string => apps.find((app) => app.id === id)?.name ?? id;

const entryOfRow = ({ ref, name, app }: AutomationRow, apps: readonly AppRecord[]) => ({
  text: name,
  aside: ref,
  also: nameOf(app, apps),
});

function entryOf(run: ShownRun, { apps, automations }: Known): Entry {
  const name =
    run.automation === CHAT_RUNS
      ? `${nameOf(run.app, apps)}, chat`
      : (automations.find(({ ref }) => ref === run.ref)?.name ?? run.ref);
  return {
    key: run.runId,
    text: `${name}: ${run.state}`,
    aside: `${run.app}, ${ago(run.startedAt ?? run.queuedAt)}`,
    also: `run ${run.ref} ${nameOf(run.app, apps)} ${ALSO[run.state] ?? ''} ${run.trigger.kind} ${run.runId}`,
    href: runHref(run.runId),
  };
}

/** Finds nothing for a run that is not kept, and where the request is refused. */
async function find(meant: Meant, signal: AbortSignal): Promise<readonly ShownRun[]> {
  try {
    if ('runId' in meant) return [await gateway.call('GET /svc/_runs/:runId', { params: meant }, { signal })];
    return await gateway.call('GET /svc/_runs', meant, { signal });
  } catch {
    return [];
  }
}

/**
 * The latest runs that fit the typed words. The gateway is asked when typing pauses, and not again for words that mean the same. Until
 * the answer comes, runs of the answer before that still fit are shown. Null: this origin may not ask.
 */
export function useFoundRuns(sought: string, known: Known | null): { entries: Entry[]; isReading: boolean } {
  const [found, setFound] = useState<{ key: string; runs: readonly ShownRun[] }>();
  const words = wordsOf(sought);
  const meant = known && meantBy(words, known);
  const key = JSON.stringify(meant);
  useEffect(() => {
    if (meant === null || found?.key === key) return;
    const abort = new AbortController();
    const ask = async () => {
      const runs = await find(meant, abort.signal);
      if (!abort.signal.aborted) setFound({ key, runs });
    };
    const timer = setTimeout(() => void ask(), found === undefined ? 0 : PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  if (known === null) return { entries: [], isReading: false };
  const entries = (found?.runs ?? []).map((run) => entryOf(run, known)).filter((entry) => fits(entry, words));
  return { entries: entries.slice(0, SHOWN), isReading: found?.key !== key };
}
