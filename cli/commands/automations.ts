/** `svc automations`: what fires on its own, and the switches for it. */

import type { AutomationRow, ShownTrigger } from '../../protocol/answers.ts';
import { type MintedWebhook, parseRef } from '../../protocol/automation.ts';
import type { CommandContext } from '../command.ts';
import { UsageError } from '../failure.ts';
import { drawMinted } from '../gateway/activation.ts';
import type { DescribedAutomation } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { allAutomations } from '../gateway/lists.ts';
import { automationPath } from '../gateway/paths.ts';
import { drawRunState } from '../terminal/run-view.ts';
import type { Cell } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatAge, formatWait } from '../terminal/units.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const verb = args.optionalAt(0);
  switch (verb) {
    case undefined:
      return list(client, terminal, args.text('app'));
    case 'enable':
    case 'disable':
      return toggle(client, terminal, refOf(verb, args.optionalAt(1)), verb === 'enable');
    case 'provision':
      return provision(client, terminal, args.optionalAt(1) ?? args.text('app'), args.has('renew'));
    case 'show':
      return show(client, terminal, refOf(verb, args.optionalAt(1)));
    default:
      throw new UsageError(`"${verb}" is not a verb.`, {
        command: 'automations',
        hint: 'Use enable, disable, provision or show.',
      });
  }
}

function refOf(verb: string, ref: string | undefined): string {
  if (ref !== undefined && parseRef(ref) !== null) return ref;
  throw new UsageError(`Name the automation: svc automations ${verb} <app>/<automation>.`, { command: 'automations' });
}

async function list(client: Client, terminal: Terminal, app: string | undefined): Promise<void> {
  const answer = await allAutomations(client, app);
  terminal.answer(answer, () => {
    const { rows, errors } = answer;
    if (rows.length + errors.length === 0) {
      terminal.line('No app has automations yet. They live in automations/<name>/ of an app: see docs/automations.md.');
      return;
    }
    const now = Date.now();
    if (rows.length > 0) {
      terminal.table(
        [
          { title: 'AUTOMATION' },
          { title: 'NAME' },
          { title: 'STATE' },
          { title: 'FIRES' },
          { title: 'NEXT' },
          { title: 'LAST RUN' },
        ],
        rows.map((row) => drawRow(row, now)),
      );
    }
    for (const { ref, code, message, path } of errors)
      terminal.line(`${terminal.style('red', '✗')} ${ref}  ${code}: ${message}${path ? ` (${path})` : ''}`);
  });
}

function drawRow(row: AutomationRow, now: number): Cell[] {
  const { lastRun, nextRunAt } = row;
  return [
    { text: row.ref, format: 'bold' },
    row.name,
    row.enabled ? { text: '● on', format: 'green' } : { text: '○ off', format: 'yellow' },
    row.triggers.map(drawTrigger).join(', ') || 'by hand',
    nextRunAt ? formatWait(nextRunAt, now) : '',
    lastRun
      ? {
          text: `${drawRunState(lastRun.state).text} ${formatAge(lastRun.startedAt ?? lastRun.queuedAt, now)}`,
          format: drawRunState(lastRun.state).format,
        }
      : { text: 'never', format: 'dim' },
  ];
}

function drawTrigger(trigger: ShownTrigger): string {
  if (trigger.kind === 'cron') return trigger.tz ? `${trigger.expr} ${trigger.tz}` : trigger.expr;
  return 'pending' in trigger ? 'webhook (pending)' : `webhook ${trigger.id.slice(0, 6)}…`;
}

async function toggle(client: Client, terminal: Terminal, ref: string, enabled: boolean): Promise<void> {
  const row = await client.post<AutomationRow>(automationPath(ref, '/enabled'), { enabled });
  const { style } = terminal;
  terminal.answer(row, () => {
    const next = row.nextRunAt ? `; it fires ${formatWait(row.nextRunAt, Date.now())}` : '';
    terminal.line(`${style('green', '✓')} ${style('bold', row.ref)} is ${enabled ? `on${next}` : 'off'}`);
  });
}

/** Of one automation, of an app, or of all; a ref has a slash. */
async function provision(
  client: Client,
  terminal: Terminal,
  target: string | undefined,
  renew: boolean,
): Promise<void> {
  const ref = renew ? refOf('provision --renew', target) : target?.includes('/') ? target : undefined;
  const app = ref === undefined ? target : undefined;
  const answer = await client.post<{ webhooks: MintedWebhook[] }>('/svc/_automations/_provision', {
    ...(app === undefined ? {} : { app }),
    ...(ref === undefined ? {} : { ref }),
    ...(renew ? { renew } : {}),
  });
  terminal.answer(answer, () => {
    if (answer.webhooks.length === 0) terminal.line('No webhook is pending.');
    drawMinted(terminal, answer.webhooks);
    if (ref === undefined || answer.webhooks.length > 0) return;
    terminal.note(`A new address and secret, in place of those it has: svc automations provision ${ref} --renew`);
  });
}

async function show(client: Client, terminal: Terminal, ref: string): Promise<void> {
  terminal.value(await client.get<DescribedAutomation>(automationPath(ref)));
}
