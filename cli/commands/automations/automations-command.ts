/** `svc automations`: lists automations, switches them on or off, and creates their webhooks. */
import type { AutomationRow, UpcomingAnswer } from '../../../protocol/answer-types.ts';
import { type NewWebhook, parseRef } from '../../../protocol/automations/automation.ts';
import { withQuery } from '../../../protocol/http/addresses.ts';
import { plural } from '../../../protocol/text/units.ts';
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { UsageError } from '../../failure.ts';
import { type AutomationList, automationPath, type DescribedAutomation } from '../../gateway/route-paths.ts';
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

/** The second word, which names an automation. */
function refOf({ args }: CommandContext, verb = args.at(0)): string {
  const ref = args.optionalAt(1);
  if (ref !== undefined && parseRef(ref) !== null) return ref;
  throw new UsageError(`Name the automation: svc automations ${verb} <app>/<automation>.`);
}

async function show(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  terminal.value(await connect().get<DescribedAutomation>(automationPath(refOf(context))));
}

async function list({ args, terminal, connect }: CommandContext): Promise<void> {
  const { rows, answer } = await readList(connect(), AUTOMATIONS, [], { app: args.text('app') });
  const { errors } = answer as AutomationList;
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
  const path = withQuery('/svc/_automations/_upcoming', { app: args.text('app'), days: args.text('days') });
  const answer = await connect().get<UpcomingAnswer>(path);
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
  const path = automationPath(refOf(context), '/enabled');
  await change(context, {
    call: (client) => client.post<AutomationRow>(path, { enabled }),
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
  const ref = renew ? refOf(context, 'provision --renew') : target?.includes('/') ? target : undefined;
  const request = { app: ref === undefined ? target : undefined, ref, renew };
  const answer = await connect().post<{ webhooks: NewWebhook[] }>('/svc/_automations/_provision', request);
  const { webhooks } = answer;
  terminal.answer(answer, () => {
    if (webhooks.length === 0) terminal.line('No webhook is pending.');
    drawMinted(terminal, webhooks);
    if (ref !== undefined && webhooks.length === 0)
      terminal.note(`To replace its address and secret: svc automations provision ${ref} --renew`);
  });
}
