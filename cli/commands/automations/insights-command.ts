/** `svc insights`: the results and cost of the latest runs, by automation, model and day. */
import type { RunSums } from '../../../protocol/automations/runs.ts';
import { formatCount, plural } from '../../../protocol/text/units.ts';
import type { CommandContext } from '../../command.ts';
import { type Cell, type Column, right } from '../../terminal/table.ts';

const DEFAULT_DAYS = 30;
const MOST_DAYS = 366;

export async function insights({ args, terminal, connect }: CommandContext): Promise<void> {
  const days = args.number('days', 1, MOST_DAYS) ?? DEFAULT_DAYS;
  const answer = await connect().call('GET /svc/_insights', { query: { days } });
  terminal.answer(answer, () => {
    const { totals, byAutomation, byModel, byDay } = answer;
    if (totals.runs === 0) {
      terminal.note(`Nothing ran in the last ${plural(days, 'day')}. Fire a run: svc run <app>/<automation>`);
      return;
    }
    for (const [title, rows] of [
      ['AUTOMATION', byAutomation.map((row) => ({ ...row, name: row.ref }))],
      ['MODEL', byModel.map((row) => ({ ...row, name: row.model }))],
      // The latest day last, beside the totals.
      ['DAY', byDay.map((row) => ({ ...row, name: row.day })).sort((a, b) => (a.name < b.name ? -1 : 1))],
    ] as [string, (RunSums & { name: string })[]][]) {
      if (rows.length === 0) continue;
      terminal.table(columnsOf(title), rows.map(cellsOf));
      terminal.line();
    }
    const { runs, failed, inputTokens, outputTokens, costUsd } = totals;
    const tokens = `${formatCount(inputTokens)} tokens in, ${formatCount(outputTokens)} out`;
    const cost = costUsd === null ? '' : `; ${money(costUsd)}`;
    terminal.line(`${plural(runs, 'run')}, ${formatCount(failed)} failed; ${tokens}${cost}`);
  });
}

function columnsOf(title: string): Column[] {
  return [
    { title, squeeze: true },
    right('RUNS'),
    right('FAILED'),
    { title: 'TOKENS IN', align: 'right', drop: 2 },
    { title: 'TOKENS OUT', align: 'right', drop: 1 },
    right('COST'),
  ];
}

function cellsOf({ name, runs, failed, inputTokens, outputTokens, costUsd }: RunSums & { name: string }): Cell[] {
  return [
    { text: name, format: 'bold' },
    formatCount(runs),
    failed > 0 ? { text: formatCount(failed), format: 'red' } : '0',
    formatCount(inputTokens),
    formatCount(outputTokens),
    money(costUsd),
  ];
}

/** Sums below a cent have four decimals; a dash where no agent reported a price. */
function money(usd: number | null): string {
  if (usd === null) return '–';
  return `$${usd > 0 && usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
}
