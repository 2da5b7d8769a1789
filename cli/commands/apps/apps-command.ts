/** `svc apps`, `svc describe`, `svc restart`, `svc rm`: the registered apps. */
import {
  type ActionDefinition,
  type JsonSchema,
  publicParts,
  type QueryDefinition,
} from '../../../protocol/manifest.ts';
import { printable } from '../../../protocol/text/printable.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import { type AppSummary, type DescribedApp, describeApp, describeApps } from '../../gateway/descriptions.ts';
import { change, readAll, showList } from '../../resource.ts';
import { APPS } from '../../resources.ts';
import { didYouMean } from '../../terminal/nearest.ts';
import { type Cell, type Column, hasRoom } from '../../terminal/table.ts';
import { drawJson, type Terminal } from '../../terminal/terminal.ts';
import { wrap } from '../../terminal/wrap.ts';
import { drawNetwork, drawPublic, drawUses } from './versions-command.ts';

const INDENT = '  ';

export async function apps({ terminal, connect }: CommandContext): Promise<void> {
  showList(terminal, APPS, await readAll(connect(), APPS));
}

export async function restart(context: CommandContext): Promise<void> {
  const app = context.args.at(0);
  await change(context, {
    call: (client) => client.call('POST /svc/_apps/:id/restart', { params: { id: app } }),
    done: `${context.terminal.style('bold', app)} is restarted`,
  });
}

export async function rm(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.at(0);
  const purge = args.has('purge');
  const params = { id: app };
  await connect().call('GET /svc/_apps/:id', { params });
  await change(context, {
    call: (client) => client.call('DELETE /svc/_apps/:id', { params, query: { purge: purge ? '1' : undefined } }),
    question: `Remove ${app} ${purge ? 'and all its data permanently' : '(it goes to the trash)'}?`,
    done: `${terminal.style('bold', app)} is removed${purge ? ', with its data' : ', and kept in the trash'}`,
    hint: purge ? undefined : `  Get it back: svc trash restore ${app}`,
  });
}

/** The apps, an app's queries and actions, or one of them. */
export async function describe({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const tool = args.optionalAt(1);
  if (app === undefined) {
    const all = await describeApps(client);
    terminal.answer(all, () => drawSummaries(terminal, all));
    return;
  }
  const manifest = await describeApp(client, app);
  if (tool === undefined) terminal.answer(manifest, () => drawApp(terminal, manifest));
  else drawTool(terminal, manifest, tool);
}

function drawSummaries(terminal: Terminal, summaries: AppSummary[]): void {
  if (summaries.length === 0) terminal.note(APPS.none());
  const { style } = terminal;
  for (const summary of summaries) {
    if ('error' in summary) {
      const { code, message } = summary.error;
      terminal.line(`${style('bold', summary.app)}  ${style('red', `${code}: ${message}`)}`);
      continue;
    }
    const { app, name, version, description, queries, actions } = summary;
    const about = description === undefined ? '' : `  ${description}`;
    terminal.line(`${style('bold', app)}  ${name} ${style('dim', version)}${style('dim', about)}`);
    for (const [title, tools] of Object.entries({ queries, actions }))
      if (tools.length > 0)
        terminal.line(`  ${style('dim', title)}  ${style('cyan', tools.map((tool) => tool.name).join('  '))}`);
  }
}

function drawApp(terminal: Terminal, { app, name, version, description, ...manifest }: DescribedApp): void {
  const { style } = terminal;
  const { network, uses, queries, actions } = manifest;
  terminal.line(`${style('bold', name)}  ${app} ${style('dim', version)}`);
  if (description !== undefined) terminal.line(description);
  if (Array.isArray(network)) terminal.line(style('dim', `reaches ${drawNetwork(network.map(String))}`));
  const open = publicParts(manifest);
  if (open.length > 0) terminal.line(style('dim', `visitors may use ${drawPublic(open)}`));
  if (Array.isArray(uses)) terminal.line(style('dim', `its pages call tools of ${drawUses(uses.map(String))}`));
  if (manifest.mcpApp !== undefined) drawPage(terminal, manifest.mcpApp);
  const sections = Object.entries({ QUERY: queries, ACTION: actions })
    .filter(([, tools]) => tools.length > 0)
    .map(([title, tools]) => ({ title, tools: tools.map(drawnTool) }));
  const isNarrow = sections.some(({ title, tools }) => !hasRoom(...toolTable(title, tools), terminal.columns));
  for (const { title, tools } of sections) {
    terminal.line();
    if (isNarrow) drawStacked(terminal, title, tools);
    else terminal.table(...toolTable(title, tools));
  }
}

function drawPage(terminal: Terminal, page: NonNullable<DescribedApp['mcpApp']>): void {
  const { style } = terminal;
  if ('tool' in page) {
    terminal.line(style('dim', `hosts of MCP Apps show its page with ${page.tool}`));
    return;
  }
  terminal.line(style('yellow', 'hosts of MCP Apps cannot show its page:'));
  for (const { path, message } of page.faults) terminal.line(`  ${path}: ${message}`);
}

type DrawnTool = { name: string; input: string; about: string };

function drawnTool({ name, input, description = '', confirmation }: DescribedApp['actions'][number]): DrawnTool {
  return { name, input: signature(input), about: description + (confirmation === 'required' ? ' (asks first)' : '') };
}

function toolTable(title: string, tools: DrawnTool[]): [Column[], Cell[][]] {
  return [
    [title, { title: 'INPUT', squeeze: true, drop: 1 }, { title: 'DESCRIPTION', squeeze: true }],
    tools.map(({ name, input, about }) => [{ text: name, format: 'cyan' }, input, about]),
  ];
}

/** Where the table would lose a column: `add(text, done?)`, with the description on the lines below it. */
function drawStacked(terminal: Terminal, title: string, tools: DrawnTool[]): void {
  const { style, columns } = terminal;
  terminal.line(style('dim', title));
  for (const { name, input, about } of tools) {
    const [first = '', ...rest] = wrap(printable(`${name}(${input})`), columns - INDENT.length);
    terminal.line(style('cyan', first.slice(0, name.length)) + first.slice(name.length));
    const below = about === '' ? rest : [...rest, ...wrap(printable(about), columns - INDENT.length)];
    terminal.lines(below.map((line) => INDENT + line));
  }
}

/** The members of an object schema; a question mark follows those that are optional: `text, done?`. */
function signature(schema: JsonSchema | undefined): string {
  if (typeof schema !== 'object' || typeof schema.properties !== 'object' || schema.properties === null) return '';
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.keys(schema.properties)
    .map((name) => name + (required.has(name) ? '' : '?'))
    .join(', ');
}

function drawTool(
  terminal: Terminal,
  { app, name: title, version, queries, actions }: DescribedApp,
  name: string,
): void {
  const query = queries.find((candidate) => candidate.name === name);
  const action = actions.find((candidate) => candidate.name === name);
  if (query === undefined && action === undefined) {
    const names = [...queries, ...actions].map((tool) => tool.name);
    const hint = didYouMean(name, names, `It has: ${names.join(', ')}`);
    throw new CommandError(`"${app}" has no query or action "${name}".`, hint);
  }
  terminal.answer({ app, name: title, version, ...(query && { query }), ...(action && { action }) }, () => {
    if (query !== undefined) drawDefinition(terminal, `query: svc read ${app} ${name}`, query);
    if (action !== undefined) drawDefinition(terminal, `action: svc write ${app} ${name}`, action);
  });
}

function drawDefinition(terminal: Terminal, call: string, definition: QueryDefinition | ActionDefinition): void {
  const { style } = terminal;
  const { name, description, ...rest } = definition;
  terminal.line(`${style('bold', name)}  ${style('dim', call)}`);
  if (description !== undefined) terminal.line(description);
  for (const [member, value] of Object.entries(rest)) {
    const [first = '', ...more] = drawJson(value, style);
    terminal.lines([`${style('dim', `${member}:`)} ${first}`, ...more]);
  }
}
