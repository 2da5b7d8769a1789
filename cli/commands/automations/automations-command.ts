/** `svc automations`: lists automations, switches them on or off, and creates their webhooks. */
import type { UpcomingAnswer } from '../../../protocol/answer-types.ts';
import { parseRef } from '../../../protocol/automations/automation.ts';
import { plural } from '../../../protocol/text/units.ts';
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { UsageError } from '../../failure.ts';
import { change, readList, tableOf } from '../../resource.ts';
import { AUTOMATIONS } from '../../resources.ts';
import { formatMoment, formatWait } from '../../terminal/units.ts';
import { drawMinted } from '../apps/versions-command.ts';

export function automations(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, {
    '': list,
    enable: (enabling) => toggle(enabling, true),
    disable: (disabling) => toggle(disabling, false),
    provision,
    show,
    upcoming,
  });
}

/** The automation that the second word names. */
function named({ args }: CommandContext, verb = args.at(0)): { app: string; id: string } {
  const names = parseRef(args.optionalAt(1) ?? '');
  if (names !== null) return names;
  throw new UsageError(`Name the automation: svc automations ${verb} <app>/<automation>.`);
}

async function show(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  terminal.value(await connect().call('GET /svc/_automations/:app/:id', { params: named(context) }));
}

async function list({ args, terminal, connect }: CommandContext): Promise<void> {
  const { rows, answer } = await readList(connect(), AUTOMATIONS, [], { app: args.text('app') });
  const { errors } = answer;
  terminal.answer(answer, () => {
    if (rows.length + errors.length === 0) terminal.line(AUTOMATIONS.none());
    if (rows.length > 0) terminal.table(...tableOf(AUTOMATIONS.columns, rows));
    for (const { ref, triggers } of rows)
      for (const trigger of triggers)
        if ('url' in trigger && trigger.problem !== undefined)
          terminal.line(
            `${terminal.style('yellow', '!')} ${ref}  its webhook refuses every request: ${trigger.problem}`,
          );
    for (const { ref, code, message, path } of errors)
      terminal.line(`${terminal.style('red', '✗')} ${ref}  ${code}: ${message}${path ? ` (${path})` : ''}`);
  });
}

/** What fires in the next days, in order. */
async function upcoming({ args, terminal, connect }: CommandContext): Promise<void> {
  const query = { app: args.text('app'), days: args.text('days') };
  const answer = await connect().call('GET /svc/_automations/_upcoming', { query });
  terminal.answer(answer, () => {
    const fires = answer.rows.flatMap(byDay).sort((a, b) => a.at - b.at);
    if (fires.length === 0) {
      terminal.line('No schedule fires in this time.');
      return;
    }
    const now = Date.now();
    terminal.table(
      ['TIME', { title: 'IN', drop: 2 }, { title: 'AUTOMATION', squeeze: true }, { title: 'THAT DAY', drop: 1 }],
      fires.map(({ ref, at, times }) => [
        formatMoment(at).slice(0, 'yyyy-mm-dd hh:mm'.length),
        formatWait(at, now),
        { text: ref, format: 'bold' },
        times > 1 ? plural(times, 'time') : '',
      ]),
    );
    for (const { ref, fires, more } of answer.rows)
      if (more) terminal.note(`${ref} fires more often than that: only its first ${fires.length} fires are counted.`);
    if (answer.more) terminal.note('There are more: name an app with --app.');
  });
}

/** The first fire of each day, and how many there are. */
function byDay({ ref, fires }: UpcomingAnswer['rows'][number]): { ref: string; at: number; times: number }[] {
  const days = new Map<string, { ref: string; at: number; times: number }>();
  for (const at of fires) {
    const day = new Date(at).toDateString();
    const first = days.get(day);
    if (first) first.times++;
    else days.set(day, { ref, at, times: 1 });
  }
  return [...days.values()];
}

async function toggle(context: CommandContext, enabled: boolean): Promise<void> {
  const sent = { params: named(context), body: { enabled } };
  await change(context, {
    call: (client) => client.call('POST /svc/_automations/:app/:id/enabled', sent),
    done: ({ ref, nextRunAt }) => {
      const next = nextRunAt ? `; it fires ${formatWait(nextRunAt, Date.now())}` : '';
      return `${context.terminal.style('bold', ref)} is ${enabled ? `on${next}` : 'off'}`;
    },
  });
}

/** Creates the webhooks of an app, of an automation (its ref has a slash), or of all. */
async function provision(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const target = args.optionalAt(1) ?? args.text('app');
  const renew = args.has('renew') || undefined;
  if (renew) named(context, 'provision --renew');
  const ref = target?.includes('/') ? target : undefined;
  const body = { app: ref === undefined ? target : undefined, ref, renew };
  const answer = await connect().call('POST /svc/_automations/_provision', { body });
  const { webhooks } = answer;
  terminal.answer(answer, () => {
    if (webhooks.length === 0) terminal.line('No webhook is pending.');
    drawMinted(terminal, webhooks);
    if (ref !== undefined && webhooks.length === 0)
      terminal.note(`To replace its address and secret: svc automations provision ${ref} --renew`);
  });
}
