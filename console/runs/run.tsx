/** One run: what fired it, what it called and for how long, what it logged, and how it ended. */
import { useState } from 'preact/hooks';
import { CHAT_RUNS, outcomeOf, type RunRecord } from '../../protocol/automations/runs.ts';
import { hrefOf } from '../address.ts';
import type { Entry } from '../app/logs/log-entries.ts';
import { LogLine, stackOf } from '../app/logs/log-lines.tsx';
import { automationHref, runNow } from '../automations/automation-parts.tsx';
import { gateway } from '../gateway.ts';
import { Located } from '../ui/located.tsx';
import { notifyProblem } from '../ui/notice.tsx';
import { Button, Card, Empty, Facts, Loading, Problem, State } from '../ui/parts.tsx';
import { short, Value } from '../ui/value.tsx';
import { clock, plural, took } from '../words.ts';
import { type ShownNode, useRun } from './run-streams.ts';
import { nameOfRun, runHref } from './run-words.ts';

export function RunView({ runId }: { runId: string }) {
  const { run, nodes, lines, error } = useRun(runId);
  const [isWaiting, setWaiting] = useState(false);
  if (!run) {
    if (error?.code === 'UNKNOWN_RUN') {
      return (
        <Empty title="This run is no longer kept" whole>
          <p>
            The history keeps only the latest runs of an automation. <a href={hrefOf(['runs'])}>All runs</a>
          </p>
        </Empty>
      );
    }
    return error ? <Problem error={error} /> : <Loading />;
  }
  const attempt = async (work: () => Promise<unknown>) => {
    setWaiting(true);
    await work().catch(notifyProblem);
    setWaiting(false);
  };
  const isChat = run.automation === CHAT_RUNS;
  const stack = stackOfError(run, lines);
  const cancel = () => gateway.call('POST /svc/_runs/:runId/cancel', { params: { runId } });
  /** Reads the whole input first: lists have only its beginning. */
  const again = () =>
    attempt(async () => {
      const { app, automation: id, input } = await gateway.call('GET /svc/_runs/:runId', { params: { runId } });
      await runNow({ app, id }, input);
    });
  return (
    <div class="run-view">
      <header class="heading">
        <h1>{nameOfRun(run)}</h1>
        <State state={run.state} />
        <span class="line heading-end">
          {run.endedAt === null && (
            <Button disabled={isWaiting} onClick={() => void attempt(cancel)}>
              Cancel this run
            </Button>
          )}
          {run.endedAt !== null && !isChat && (
            <Button disabled={isWaiting} onClick={() => void again()}>
              Run again
            </Button>
          )}
        </span>
      </header>
      {run.error && (
        <div class="problem" role="alert">
          <Located text={outcomeOf(run)} app={run.app} />
          {stack && (
            <pre class="places">
              <Located text={stack} app={run.app} />
            </pre>
          )}
        </div>
      )}
      {run.summary && !run.error && <p>{run.summary}</p>}
      <Facts facts={factsOf(run)} />
      <Card title="Calls" aside={<span class="hint">{plural(nodes.length, 'call')}</span>}>
        {nodes.length === 0 ? (
          <p class="hint">{run.endedAt === null ? 'No calls yet.' : 'It made no calls.'}</p>
        ) : (
          <Timeline run={run} nodes={nodes} />
        )}
      </Card>
      {lines.length > 0 && (
        <Card title="Log">
          <ol class="log-lines" aria-label="What it logged">
            {lines.map((entry) => (
              <LogLine key={entry.seq} entry={entry} />
            ))}
          </ol>
        </Card>
      )}
      {(run.input !== null || run.output !== null) && (
        <Card title="Input and output">
          <Value name="Input" value={run.input} />
          <Value name="Output" value={run.output} />
        </Card>
      )}
    </div>
  );
}

/** Where the handler failed, as the log has it. */
function stackOfError({ error }: RunRecord, lines: readonly Entry[]): string | undefined {
  const line = lines.findLast(({ members }) => members.level === 'error' && members.msg === error?.message);
  const places = ((line && stackOf(line.members)) ?? '').split('\n').map((place) => place.trim());
  return places.filter((place) => place.startsWith('at ')).join('\n') || undefined;
}

function factsOf(run: RunRecord): [string, string | preact.JSX.Element][] {
  const { inputTokens, outputTokens, costUsd } = run.usage;
  const facts: [string, string | preact.JSX.Element][] = [
    ['Fired by', firedBy(run)],
    ...(run.by ? [['Person', run.by.name] satisfies [string, string]] : []),
    ['Queued', clock(run.queuedAt)],
  ];
  if (run.startedAt !== null) {
    facts.push(['Waited', took(run.startedAt - run.queuedAt)]);
    facts.push(['Took', run.endedAt === null ? 'still running' : took(run.endedAt - run.startedAt)]);
  }
  if (inputTokens + outputTokens > 0) facts.push(['Tokens', `${inputTokens} in, ${outputTokens} out`]);
  if (costUsd !== null) facts.push(['Cost', `$${costUsd.toFixed(4)}`]);
  if (run.automation !== CHAT_RUNS)
    facts.push(['Automation', <a href={automationHref({ app: run.app, id: run.automation })}>{run.ref}</a>]);
  facts.push(['App', <a href={hrefOf(['apps', run.app])}>{run.app}</a>]);
  facts.push(['Run', <code>{run.runId}</code>]);
  return facts;
}

/** The conversation, the run that failed, or the time or address that fired it. */
function firedBy({ app, trigger: { kind, origin }, parentRunId }: RunRecord): string | preact.JSX.Element {
  if (kind === 'chat' && typeof origin === 'string')
    return <a href={hrefOf(['apps', app, 'chat'], { talk: origin })}>a message in a conversation</a>;
  if (parentRunId !== null)
    return (
      <>
        the failure of <a href={runHref(parentRunId)}>run …{parentRunId.slice(-6)}</a>
      </>
    );
  return origin === null ? kind : `${kind}, ${typeof origin === 'number' ? clock(origin) : origin}`;
}

/** Calls one below the other, each with a bar from its start to its end within the run. */
function Timeline({ run, nodes }: { run: RunRecord; nodes: readonly ShownNode[] }) {
  const start = run.startedAt ?? nodes[0]?.startedAt ?? 0;
  const last = run.endedAt ?? Math.max(...nodes.map(({ endedAt, startedAt }) => endedAt ?? startedAt));
  const span = Math.max(1, last - start);
  return (
    <ol class="timeline" aria-label="What it called">
      {nodes.map((node) => {
        const from = ((node.startedAt - start) / span) * 100;
        const width = (((node.endedAt ?? last) - node.startedAt) / span) * 100;
        const state = node.endedAt === undefined ? 'running' : node.ok ? 'ok' : 'error';
        return (
          <li key={node.ordinal}>
            <div class="call">
              <State state={state} />
              <b>{node.name}</b>
              <code class="hint call-args">{node.args === null ? '' : short(node.args)}</code>
              <span class="hint number">{node.endedAt === undefined ? '' : took(node.endedAt - node.startedAt)}</span>
            </div>
            <div class="bar" aria-hidden="true">
              <i
                data-state={state}
                style={{
                  left: `${Math.min(99, Math.max(0, from))}%`,
                  width: `${Math.max(0.6, Math.min(100 - from, width))}%`,
                }}
              />
            </div>
            {node.error && (
              <p class="problem">
                <Located text={`${node.error.code}: ${node.error.message}`} app={run.app} />
              </p>
            )}
            {node.said !== '' && <p class="said">{node.said}</p>}
            <Value name="Arguments" value={short(node.args).endsWith('…') ? node.args : null} />
            <Value name="Answer" value={node.output} />
          </li>
        );
      })}
    </ol>
  );
}
