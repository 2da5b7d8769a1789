/** `svc chats`: lists the conversations about an app, prints one, and deletes one. */
import { askFirst, type CommandContext } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { allConversations, type ConversationRow, conversationPath, readHistory } from '../../gateway/conversations.ts';
import { nearest } from '../../terminal/nearest.ts';
import { formatAge, plural } from '../../terminal/units.ts';

const VERBS = { show, rm: remove };

/** A word is a verb only if an app follows it, because an app may have the same name. */
export async function chats(context: CommandContext): Promise<void> {
  const { args, subject } = context;
  const [first, second] = [args.at(0), args.optionalAt(1)];
  subject.app = second ?? first;
  if (second === undefined) return list(context);
  if (!Object.hasOwn(VERBS, first))
    throw new UsageError(
      `"${first}" is not a verb.`,
      `Verbs: ${Object.keys(VERBS).join(', ')}. Such as: svc chats show ${first} ${second}`,
    );
  return VERBS[first as keyof typeof VERBS](context);
}

async function list({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  const { rows } = await allConversations(connect(), app);
  const now = Date.now();
  const columns = [
    'WINDOW',
    { title: 'BEGINS', squeeze: true as const },
    { title: 'MODE', drop: 2 },
    { title: 'TURNS', align: 'right' as const, drop: 1 },
    'USED',
  ];
  const whenNone = `There are no conversations. Begin one: svc chat ${app}`;
  terminal.list(rows, whenNone, columns, ({ id, title, mode, turns, updatedAt }) => [
    { text: id, format: 'bold' },
    title,
    mode,
    String(turns),
    { text: formatAge(updatedAt, now), format: 'dim' },
  ]);
}

async function show(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  const client = connect();
  const row = await named(context);
  const said = await readHistory(client, row);
  terminal.answer(said, () => {
    const { style } = terminal;
    if ((said[0]?.seq ?? 1) > 1) terminal.hint('Earlier messages are not shown.');
    for (const { kind, text = '', toolName = '', ok, errorText = '' } of said) {
      if (kind === 'user') terminal.lines(`› ${text}`.split('\n').map((line) => style('bold', line)));
      else if (kind === 'tool')
        terminal.line(`  ${style(ok === false ? 'red' : 'dim', `⚙ ${toolName} ${errorText}`.trimEnd())}`);
      else terminal.lines(text.split('\n').map((line) => `  ${line}`.trimEnd()));
    }
    terminal.hint(`Continue: svc chat ${row.app} --window ${row.id}`);
  });
}

async function remove(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  const client = connect();
  const row = await named(context);
  const draft = row.kind === 'conversation' ? ' Its draft is closed, and unpublished changes are lost.' : '';
  const question = `Delete "${row.title || row.id}" (${plural(row.turns, 'turn')})?${draft}`;
  await askFirst(context, question);
  const answer = await client.delete(conversationPath(row));
  terminal.answer(answer, () => terminal.done(`${terminal.style('bold', row.id)} of ${row.app} is deleted`));
}

async function named({ args, connect }: CommandContext): Promise<ConversationRow> {
  const [app, id] = [args.at(1), args.optionalAt(2)];
  const hint = `List them: svc chats ${app}`;
  if (id === undefined) throw new UsageError(`<window> is missing: svc chats ${args.at(0)} ${app} <window>.`, hint);
  const { rows } = await allConversations(connect(), app);
  const row = rows.find((candidate) => candidate.id === id);
  if (row !== undefined) return row;
  const meant = nearest(
    id,
    rows.map((candidate) => candidate.id),
  );
  throw new CommandError(
    `There is no conversation "${id}" about ${app}.`,
    meant === undefined ? hint : `Did you mean "${meant}"?`,
  );
}
