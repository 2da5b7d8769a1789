/** What the runs of the last days did and cost: by day, automation and model. */
import { CHAT_RUNS, type Insights, type RunSums } from '../../protocol/automations/runs.ts';
import { go, hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { Chart, WHOLE_STEPS } from '../ui/chart.tsx';
import { Card, Empty, Facts, Loading, Problem } from '../ui/parts.tsx';

const READ_MS = 30_000;
const CHAT_END = new RegExp(`/${CHAT_RUNS}$`);
const DAY_MS = 86_400_000;
const CHOICES = [7, 30, 90, 365];

const money = (usd: number | null): string => {
  if (usd === null) return 'No price';
  return usd === 0 ? '$0' : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
};
/** What was paid; a dash where no tokens were used, for which no price is missing. */
const paid = ({ inputTokens, outputTokens, costUsd }: RunSums): string =>
  inputTokens + outputTokens === 0 && costUsd === null ? '–' : money(costUsd);
const count = (value: number): string => Math.round(value).toLocaleString();

export function InsightsView({ query }: { query: URLSearchParams }) {
  const asked = Number(query.get('days') ?? 30);
  const days = CHOICES.includes(asked) ? asked : 30;
  const { value, error, reload } = usePolled(
    (signal) => gateway.call('GET /svc/_insights', { query: { days } }, { signal }),
    `insights ${days}`,
    READ_MS,
  );
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const { totals } = value;
  const usesAgents = totals.inputTokens + totals.outputTokens > 0 || totals.costUsd !== null;
  const byDay = wholeDays(value.byDay, days);
  const times = byDay.map(({ at }) => at);
  const charts = [
    {
      title: 'Runs',
      format: count,
      steps: WHOLE_STEPS,
      series: [
        { label: 'ok', values: byDay.map(({ ok }) => ok), color: '--good' },
        { label: 'failed', values: byDay.map(({ failed }) => failed), color: '--bad' },
      ],
    },
    {
      title: 'Tokens',
      format: count,
      steps: WHOLE_STEPS,
      series: [
        { label: 'in', values: byDay.map(({ inputTokens }) => inputTokens), color: '--accent' },
        { label: 'out', values: byDay.map(({ outputTokens }) => outputTokens), color: '--warn' },
      ],
    },
    {
      title: 'Cost',
      format: money,
      series: [{ label: 'US dollars', values: byDay.map(({ costUsd }) => costUsd ?? 0), color: '--accent' }],
    },
  ];
  return (
    <>
      <div class="line filters">
        <select
          aria-label="Days"
          value={days}
          onChange={({ currentTarget }) => go(hrefOf(['system', 'insights'], { days: currentTarget.value }))}
        >
          {CHOICES.map((choice) => (
            <option key={choice} value={choice}>
              Last {choice} days
            </option>
          ))}
        </select>
        <Facts
          facts={[
            ['Runs', `${count(totals.runs)}, ${count(totals.failed)} failed`],
            ['Tokens', `${count(totals.inputTokens)} in, ${count(totals.outputTokens)} out`],
            ['Cost', paid(totals)],
          ]}
        />
      </div>
      {totals.runs === 0 ? (
        <Empty title="No runs in these days" />
      ) : (
        <>
          <div class="charts">
            {charts.slice(0, usesAgents ? undefined : 1).map((chart) => (
              <Chart key={chart.title} {...chart} times={times} kind="bars" />
            ))}
          </div>
          {!usesAgents && (
            <p class="hint no-agents">No agent was used in these days: there are no tokens and no cost.</p>
          )}
          <Sums title="By automation" isRef rows={value.byAutomation.map((row) => ({ ...row, name: row.ref }))} />
          <Sums title="By model" isRef={false} rows={value.byModel.map((row) => ({ ...row, name: row.model }))} />
        </>
      )}
    </>
  );
}

/** Days without a run are zero. A day is one of UTC. */
function wholeDays(rows: Insights['byDay'], days: number): (RunSums & { at: number })[] {
  const known = new Map(rows.map((row) => [row.day, row]));
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const none: RunSums = { runs: 0, ok: 0, failed: 0, inputTokens: 0, outputTokens: 0, costUsd: null };
  return Array.from({ length: days }, (_, index) => {
    const at = today - (days - 1 - index) * DAY_MS;
    return { ...none, ...known.get(new Date(at).toISOString().slice(0, 10)), at };
  });
}

function Sums({ title, isRef, rows }: { title: string; isRef: boolean; rows: (RunSums & { name: string })[] }) {
  if (rows.length === 0) return null;
  return (
    <Card class="table" title={title}>
      <table>
        <thead>
          <tr>
            <th>Name</th>
            <th class="number">Runs</th>
            <th class="number">Failed</th>
            <th class="number wide">Tokens in</th>
            <th class="number wide">Tokens out</th>
            <th class="number">Cost</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, runs, failed, inputTokens, outputTokens, costUsd }) => (
            <tr key={name}>
              <td>{isRef ? <a href={hrefOf(['runs'], { ref: name })}>{name.replace(CHAT_END, ', chat')}</a> : name}</td>
              <td class="number">{count(runs)}</td>
              <td class={`number ${failed > 0 ? 'problem' : ''}`}>
                {failed > 0 && isRef ? (
                  <a href={hrefOf(['runs'], { ref: name, state: 'error' })}>{count(failed)}</a>
                ) : (
                  count(failed)
                )}
              </td>
              <td class="number wide">{count(inputTokens)}</td>
              <td class="number wide">{count(outputTokens)}</td>
              <td class="number">{paid({ runs, ok: 0, failed, inputTokens, outputTokens, costUsd })}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
