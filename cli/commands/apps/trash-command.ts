/** `svc trash`: removed apps that are still kept; restores them, or deletes them permanently. */
import type { TrashRow } from '../../../protocol/answer-types.ts';
import { formatBytes, plural } from '../../../protocol/text/units.ts';
import { askFirst, type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import { change, readAll, showList } from '../../resource.ts';
import { TRASH } from '../../resources.ts';
import { didYouMean } from '../../terminal/nearest.ts';
import { formatAge } from '../../terminal/units.ts';

export function trash(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { '': list, restore, empty });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  const rows = await readAll(connect(), TRASH);
  showList(terminal, TRASH, rows);
  const [newest] = rows;
  if (newest !== undefined && !terminal.json) terminal.hint(`Restore one: svc trash restore ${newest.app}`);
}

async function restore(context: CommandContext): Promise<void> {
  const { args, terminal, connect, subject } = context;
  const named = args.wordAt(1, 'svc trash', '<app or id>', 'List them: svc trash');
  const client = connect();
  const rows = await readAll(client, TRASH);
  const row = findRow(rows, named);
  subject.app = row.app;
  const others = rows.filter(({ app, id }) => app === row.app && id !== row.id).map(({ id }) => id);
  await change(context, {
    call: () => client.call('POST /svc/_trash/:id/restore', { params: { id: row.id } }),
    // Its automations fire again.
    question: `Restore ${describe(row)}? It goes live again.`,
    done: ({ activeVersion }) => {
      const live = activeVersion === null ? 'no version is live' : `${row.version || activeVersion} is live`;
      return `${terminal.style('bold', row.app)} is restored, ${live}`;
    },
    notes: [
      'Its tokens, run history and conversations were not kept.',
      ...(others.length > 0 ? [`Older ones of this app are still in the trash: ${others.join(', ')}`] : []),
    ],
  });
}

async function empty(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const named = args.optionalAt(1);
  const client = connect();
  const rows = await readAll(client, TRASH);
  const going = named === undefined ? rows : [findRow(rows, named)];
  const bytes = going.reduce((sum, row) => sum + row.bytes, 0);
  const [only] = going;
  const what = going.length === 1 && only !== undefined ? describe(only) : `${plural(going.length, 'removed app')}`;
  if (going.length > 0) await askFirst(context, `Delete ${what} permanently?`);
  for (const { id } of going) await client.call('DELETE /svc/_trash/:id', { params: { id } });
  terminal.answer({ deleted: going.map(({ id }) => id), bytes }, () => {
    if (going.length === 0) terminal.note(TRASH.none());
    else terminal.done(`${plural(going.length, 'removed app')} deleted permanently, ${formatBytes(bytes)} freed`);
  });
}

/** By id, or by the app: then the one that was removed last. */
function findRow(rows: TrashRow[], named: string): TrashRow {
  const row = rows.find(({ id }) => id === named) ?? rows.find(({ app }) => app === named);
  if (row !== undefined) return row;
  const names = rows.flatMap(({ app, id }) => [app, id]);
  const hint = rows.length === 0 ? TRASH.none() : 'List them: svc trash';
  throw new CommandError(`The trash has no "${named}".`, didYouMean(named, names, hint));
}

/** `notes (Notes 1.2.0, 38.2 KiB, removed 2 d ago)`. */
function describe({ app, name, version, bytes, removedAt }: TrashRow): string {
  return `${app} (${`${name} ${version}`.trim()}, ${formatBytes(bytes)}, removed ${formatAge(removedAt, Date.now())})`;
}
