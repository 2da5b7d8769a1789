/** `svc activity`: the state of an app, and its last hour as small charts. */
import type { ActivityAnswer, ActivityPoint } from '../../../protocol/answer-types.ts';
import { formatBytes, formatCount, plural } from '../../../protocol/text/units.ts';
import type { CommandContext } from '../../command.ts';
import type { Style } from '../../terminal/style.ts';

const BARS = '▁▂▃▄▅▆▇█';
const LABEL = 8;
/** Columns for the text after a chart. */
const SAID = 18;

export async function activity({ args, terminal, connect }: CommandContext): Promise<void> {
  const answer = await connect().call('GET /svc/_apps/:id/activity', { params: { id: args.at(0) } });
  terminal.answer(answer, () => terminal.lines(drawActivity(answer, terminal.columns, terminal.style)));
}

function drawActivity(answer: ActivityAnswer, width: number, style: Style): string[] {
  const { id, state, reason, lastExit, points, files } = answer;
  const last = points.at(-1);
  const room = Math.max(8, Math.min(60, width - LABEL - SAID));
  const sum = (of: (point: ActivityPoint) => number): number => points.reduce((all, point) => all + of(point), 0);
  const most = (of: (point: ActivityPoint) => number | null): number => Math.max(0, ...points.map((p) => of(p) ?? 0));
  const row = (label: string, of: (point: ActivityPoint) => number | null, said: string): string =>
    `${style('dim', label.padEnd(LABEL))}${style('cyan', barsOf(points.map(of), room))}  ${said}`;
  const tone = reason === null ? (state === 'live' ? 'green' : 'dim') : 'red';
  return [
    `${style('bold', id)}  ${style(tone, state.replaceAll('_', ' '))}`,
    ...(reason === null ? [] : [style('red', `${reason}: svc restart ${id}`)]),
    ...(lastExit === null ? [] : [style('dim', `last exit: ${lastExit}`)]),
    row('calls', ({ calls }) => calls, formatCount(sum(({ calls }) => calls))),
    row(
      'errors',
      ({ refused, failed }) => refused + failed,
      errorsOf(
        sum(({ failed }) => failed),
        sum((p) => p.refused),
      ),
    ),
    row('p50', ({ p50 }) => p50, upTo(most(({ p50 }) => p50))),
    row('p99', ({ p99 }) => p99, upTo(most(({ p99 }) => p99))),
    row('data', ({ dataBytes }) => dataBytes, formatBytes(last?.dataBytes ?? 0)),
    row('live', ({ subscribers }) => subscribers, `${formatCount(last?.subscribers ?? 0)} now`),
    style(
      'dim',
      `The last ${points.length === 1 ? 'minute' : plural(points.length, 'minute')}; ${plural(files.files, 'file')}, ${formatBytes(files.bytes)}.`,
    ),
  ];
}

function errorsOf(failed: number, refused: number): string {
  return failed + refused === 0 ? 'none' : `${formatCount(failed + refused)}, ${formatCount(failed)} failed`;
}

/** Without calls there is no measurement. */
const upTo = (value: number): string => (value === 0 ? 'no calls' : `up to ${ms(value)}`);

const ms = (value: number): string => `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} ms`;

/** One bar for each point, or for several points if there is less room; a blank without a value. */
function barsOf(values: (number | null)[], room: number): string {
  const share = Math.ceil(values.length / room);
  const groups: number[] = [];
  // From the end: the latest points are together.
  for (let to = values.length; to > 0; to -= share)
    groups.unshift(Math.max(...values.slice(Math.max(0, to - share), to).map((value) => value ?? 0)));
  const most = Math.max(...groups, 0);
  const bars = groups.map((value) => {
    if (value === 0) return ' ';
    return BARS[Math.min(BARS.length - 1, Math.floor((value / most) * (BARS.length - 1)))];
  });
  return bars.join('').padStart(Math.min(room, Math.ceil(60 / share)));
}
