/** `svc chats`: lists the conversations about an app, prints one, and deletes one. */
import { plural } from '../../../protocol/text/units.ts';
import { type CommandContext, type RunCommand, runVerbOfApp } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import {
  allConversations,
  type ConversationRow,
  deleteConversation,
  readHistory,
} from '../../gateway/conversations.ts';
import { change, showList } from '../../resource.ts';
import { CONVERSATIONS } from '../../resources.ts';
import { didYouMean } from '../../terminal/nearest.ts';

export function chats(context: CommandContext): ReturnType<RunCommand> {
  return runVerbOfApp(context, { '': list, show, rm: removeConversation }, 'svc chats', 'show');
}

async function list({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  showList(terminal, CONVERSATIONS, (await allConversations(connect(), app)).rows, { scope: [app] });
}

async function show(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  const client = connect();
  const row = await named(context);
  const said = await readHistory(client, row);
  terminal.answer(said, () => {
    const { style } = terminal;
    if ((said[0]?.seq ?? 1) > 1) terminal.hint('Earlier messages are not shown.');
    for (const part of said) {
      if (part.kind === 'user') {
        const writer = part.by === undefined ? '' : `${part.by.name} `;
        terminal.lines(`${writer}› ${part.text}`.split('\n').map((line) => style('bold', line)));
      } else if (part.kind === 'tool') {
        const { toolName, ok, errorText = '' } = part;
        terminal.line(`  ${style(ok === false ? 'red' : 'dim', `⚙ ${toolName} ${errorText}`.trimEnd())}`);
      } else terminal.lines(part.text.split('\n').map((line) => `  ${line}`.trimEnd()));
    }
    terminal.hint(`Continue: svc chat ${row.app} --window ${row.id}`);
  });
}

async function removeConversation(context: CommandContext): Promise<void> {
  const row = await named(context);
  const draft = row.kind === 'conversation' ? ' Its draft is closed, and unpublished changes are lost.' : '';
  await change(context, {
    call: (client) => deleteConversation(client, row),
    question: `Delete "${row.title || row.id}" (${plural(row.turns, 'turn')})?${draft}`,
    done: `${context.terminal.style('bold', row.id)} of ${row.app} is deleted`,
  });
}

async function named({ args, connect }: CommandContext): Promise<ConversationRow> {
  const app = args.at(1);
  const hint = `List them: svc chats ${app}`;
  const id = args.wordAt(2, 'svc chats', '<window>', hint);
  const { rows } = await allConversations(connect(), app);
  const row = rows.find((candidate) => candidate.id === id);
  if (row !== undefined) return row;
  const ids = rows.map((candidate) => candidate.id);
  throw new CommandError(`There is no conversation "${id}" about ${app}.`, didYouMean(id, ids, hint));
}
