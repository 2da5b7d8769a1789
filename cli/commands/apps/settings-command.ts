/** `svc settings`: shows the settings of an app's page, sets one, and resets one to its default. */
import type { Received } from '../../../protocol/routes/api.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { name, showList, text } from '../../resource.ts';
import { didYouMean } from '../../terminal/nearest.ts';

type Settings = Received<'GET /svc/_apps/:id/settings'>;
type Knob = Settings['knobs'][number];

export async function settings(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const [app, key, value] = [args.at(0), args.optionalAt(1), args.optionalAt(2)];
  const isReset = args.has('default');
  if (key === undefined && isReset)
    throw new UsageError(`<key> is missing: svc settings ${app} <key> --default.`, `List them: svc settings ${app}`);
  if (value !== undefined && isReset)
    throw new UsageError('A value and --default cannot be combined.', 'Omit one of them.');
  const params = { id: app, sid: args.text('workspace') };
  const client = connect();
  const now = await client.call('GET /svc/_apps/:id/settings', { params });
  if (key === undefined) return list(context, now);
  const knob = knobOf(now, app, key);
  if (value === undefined && !isReset)
    throw new UsageError(`<value> is missing: svc settings ${app} ${key} <value>.`, takes(knob));
  if (value !== undefined && !knob.options.some((option) => option.value === value))
    throw new CommandError(`"${value}" is not a value of "${key}".`, takes(knob));
  const { [key]: _before, ...others } = now.settings;
  const next = value === undefined ? others : { ...others, [key]: value };
  const stored = await client.call('PUT /svc/_apps/:id/settings', { params, body: next });
  terminal.answer(stored, () => {
    const of = `${terminal.style('bold', key)} of ${app}`;
    terminal.done(
      value === undefined ? `${of} is ${shownValue(knob, stored)} again, its default` : `${of} is ${value}`,
    );
    terminal.hint('Reload open pages to see it.');
  });
}

function list({ args, terminal }: CommandContext, now: Settings): void {
  const none = () => `The page of ${args.at(0)} has no settings: its app.json has no "knobs".`;
  const columns = [
    name<Knob>('SETTING', ({ key }) => key),
    text<Knob>('VALUE', (knob) => {
      const value = shownValue(knob, now);
      return now.settings[knob.key] === undefined ? { text: value, format: 'dim' } : value;
    }),
    text<Knob>('TAKES', ({ options }) => options.map(({ value }) => value).join(', '), { squeeze: true }),
    text<Knob>('LABEL', ({ label }) => ({ text: label, format: 'dim' }), { drop: 1 }),
  ];
  showList(terminal, { columns, none }, now.knobs, { answer: now });
}

/** The value that the page shows: the user's preferences for all apps replace the default of a setting that is not set. */
function shownValue({ key, default: otherwise }: Knob, { prefs, settings: chosen }: Settings): string {
  return String(chosen[key] ?? prefs?.[key] ?? otherwise);
}

function knobOf({ knobs }: Settings, app: string, key: string): Knob {
  const knob = knobs.find((candidate) => candidate.key === key);
  if (knob !== undefined) return knob;
  const keys = knobs.map((candidate) => candidate.key);
  const hint = didYouMean(key, keys, `List them: svc settings ${app}`);
  throw new CommandError(`The page of ${app} has no setting "${key}".`, hint);
}

function takes({ options }: Knob): string {
  return `Values: ${options.map(({ value }) => value).join(', ')}`;
}
