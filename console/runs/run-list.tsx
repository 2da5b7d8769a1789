/** A list of runs, newest first: those that fit a filter, followed while they go on. */
import { useState } from 'preact/hooks';
import type { ShownRun } from '../../protocol/answer-types.ts';
import { RUN_STATES } from '../../protocol/automations/run-states.ts';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { outcomeOf } from '../../protocol/automations/runs.ts';
import { hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notifyProblem } from '../ui/notice.tsx';
import { Button, Card, Empty, Loading, Problem, State } from '../ui/parts.tsx';
import { ago, clock, took } from '../words.ts';
import { useRunsStream } from './run-streams.ts';
import { nameOfRun, runHref } from './run-words.ts';

const PAGE = 50;
/** The members of an address that filter runs, for the view and for the gateway alike. */
export const FILTERS = ['app', 'ref', 'state'] as const;

/** `query` has the filters; runs appear and change as they start and end. */
export function RunList({ query }: { query: URLSearchParams }) {
  const [app, ref, state] = FILTERS.map((name) => query.get(name) || undefined);
  const search = [app, ref, state].join(' ');
  const read = (more: { before?: string | undefined }, signal?: AbortSignal) => {
    const filter = { app, ref, state: RUN_STATES.find((one) => one === state) };
    return gateway.call('GET /svc/_runs', { query: { limit: PAGE, ...filter, ...more } }, { signal });
  };
  const first = usePolled((signal) => read({}, signal), search, 0);
  const [changed, setChanged] = useState<{ search: string; runs: readonly (ShownRun | RunRecord)[] }>();
  const [earlier, setEarlier] = useState<{ search: string; runs: readonly ShownRun[]; isAll: boolean }>();
  const streamed = changed?.search === search ? changed.runs : [];
  const before = earlier?.search === search ? earlier : { runs: [], isAll: false };

  useRunsStream(
    { app, ref },
    (run) =>
      setChanged((last) => ({
        search,
        runs: [run, ...(last?.search === search ? last.runs : []).filter(({ runId }) => runId !== run.runId)],
      })),
    first.reload,
  );

  if (!first.value) return first.error ? <Problem error={first.error} retry={first.reload} /> : <Loading />;
  const runs = merged([...before.runs, ...first.value], streamed, state);
  const isAll = before.isAll || (before.runs.length === 0 && first.value.length < PAGE);
  const more = () =>
    read({ before: runs.at(-1)?.runId }).then(
      (page) => setEarlier({ search, runs: [...before.runs, ...page], isAll: page.length < PAGE }),
      notifyProblem,
    );
  if (runs.length === 0) {
    return (
      <Empty title={search.trim() === '' ? 'No runs yet' : 'No runs match'}>
        <p class="hint">A run is recorded each time an automation fires or an agent answers in a chat.</p>
        {state && (
          <p>
            <a href={hrefOf(['runs'], { app, ref })}>In every state</a>
          </p>
        )}
      </Empty>
    );
  }
  return (
    <Card class="table">
      <ol class="runs" aria-label="Runs">
        {runs.map((run) => (
          <RunRow key={run.runId} run={run} />
        ))}
      </ol>
      {!isAll && (
        <p class="more">
          <Button class="small" onClick={() => void more()}>
            Earlier runs
          </Button>
        </p>
      )}
    </Card>
  );
}

/** Newest first, each once. A stream may be ahead of an answer that was under way; a run that has ended stays ended. */
function merged(
  read: readonly ShownRun[],
  streamed: readonly (ShownRun | RunRecord)[],
  state: string | undefined,
): (ShownRun | RunRecord)[] {
  const runs = new Map<string, ShownRun | RunRecord>(streamed.map((run) => [run.runId, run]));
  for (const run of read) if (!runs.get(run.runId)?.endedAt) runs.set(run.runId, run);
  return [...runs.values()]
    .filter((run) => state === undefined || run.state === state)
    .sort((a, b) => (a.runId < b.runId ? 1 : -1));
}

function RunRow({ run }: { run: ShownRun | RunRecord }) {
  const at = run.startedAt ?? run.queuedAt;
  return (
    <li>
      <a href={runHref(run.runId)}>
        <State state={run.state} />
        <b>{nameOfRun(run)}</b>
        <span class={`run-outcome ${run.error ? 'problem' : 'hint'}`}>{outcomeOf(run)}</span>
        <span class="hint wide">{run.by ? `${run.trigger.kind}, ${run.by.name}` : run.trigger.kind}</span>
        <span class="hint wide number">{run.endedAt && run.startedAt ? took(run.endedAt - run.startedAt) : ''}</span>
        <time class="hint number" title={clock(at)}>
          {ago(at)}
        </time>
      </a>
    </li>
  );
}
