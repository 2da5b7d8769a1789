/** `svc describe`: the apps, an app's queries and actions, or one of them. */
import type { ActionDefinition, JsonSchema, QueryDefinition } from '../../protocol/manifest.ts';
import type { CommandContext } from '../command.ts';
import { CommandError } from '../failure.ts';
import type { AppSummary, DescribedApp, ToolAnswer } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { nearest } from '../terminal/nearest.ts';
import { drawNetwork, drawUses } from '../terminal/reach.ts';
import { drawJson, type Terminal } from '../terminal/terminal.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const tool = args.optionalAt(1);
  if (app === undefined) {
    const { apps } = await describe<{ apps: AppSummary[] }>(client, {});
    terminal.answer(apps, () => drawSummaries(terminal, apps));
    return;
  }
  const manifest = await describe<DescribedApp>(client, { app });
  if (tool === undefined) terminal.answer(manifest, () => drawApp(terminal, manifest));
  else drawTool(terminal, manifest, tool);
}

async function describe<T>(client: Client, filter: { app?: string }): Promise<T> {
  return (await client.post<ToolAnswer<T>>('/svc/_tool/svc_describe', filter)).data;
}

function drawSummaries(terminal: Terminal, apps: AppSummary[]): void {
  if (apps.length === 0) terminal.line('No app is registered yet. Make one: svc new notes && svc push notes');
  const { style } = terminal;
  for (const summary of apps) {
    if ('error' in summary) {
      terminal.line(
        `${style('bold', summary.app)}  ${style('red', `${summary.error.code}: ${summary.error.message}`)}`,
      );
      continue;
    }
    const about = summary.description === undefined ? '' : `  ${summary.description}`;
    terminal.line(
      `${style('bold', summary.app)}  ${summary.name} ${style('dim', summary.version)}${style('dim', about)}`,
    );
    for (const [title, tools] of [
      ['queries', summary.queries],
      ['actions', summary.actions],
    ] as const) {
      if (tools.length > 0)
        terminal.line(`  ${style('dim', title)}  ${style('cyan', tools.map(({ name }) => name).join('  '))}`);
    }
  }
}

function drawApp(terminal: Terminal, manifest: DescribedApp): void {
  const { style } = terminal;
  terminal.line(`${style('bold', manifest.name)}  ${manifest.app} ${style('dim', manifest.version)}`);
  if (manifest.description !== undefined) terminal.line(manifest.description);
  if (Array.isArray(manifest.network))
    terminal.line(style('dim', `reaches ${drawNetwork(manifest.network.map(String))}`));
  if (Array.isArray(manifest.uses))
    terminal.line(style('dim', `its pages call tools of ${drawUses(manifest.uses.map(String))}`));
  for (const [title, tools] of [
    ['QUERY', manifest.queries],
    ['ACTION', manifest.actions],
  ] as const) {
    if (tools.length === 0) continue;
    terminal.line();
    terminal.table(
      [{ title }, { title: 'INPUT' }, { title: 'DESCRIPTION' }],
      tools.map((tool) => [
        { text: tool.name, format: 'cyan' },
        signature(tool.input),
        (tool.description ?? '') + (tool.confirmation === 'required' ? ' (asks first)' : ''),
      ]),
    );
  }
}

/** The members of an object schema, those that may be left out with a question mark: `text, done?`. */
export function signature(schema: JsonSchema | undefined): string {
  if (typeof schema !== 'object' || typeof schema.properties !== 'object' || schema.properties === null) return '';
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.keys(schema.properties)
    .map((name) => name + (required.has(name) ? '' : '?'))
    .join(', ');
}

function drawTool(terminal: Terminal, manifest: DescribedApp, name: string): void {
  const query = manifest.queries.find((candidate) => candidate.name === name);
  const action = manifest.actions.find((candidate) => candidate.name === name);
  if (query === undefined && action === undefined) throw unknownTool(manifest, name);
  const { app, version } = manifest;
  const answer = { app, name: manifest.name, version, ...(query && { query }), ...(action && { action }) };
  terminal.answer(answer, () => {
    if (query !== undefined) drawDefinition(terminal, `svc read ${app} ${name}`, 'query', query);
    if (action !== undefined) drawDefinition(terminal, `svc write ${app} ${name}`, 'action', action);
  });
}

function drawDefinition(
  terminal: Terminal,
  call: string,
  kind: string,
  definition: QueryDefinition | ActionDefinition,
): void {
  const { style } = terminal;
  const { name, description, ...rest } = definition;
  terminal.line(`${style('bold', name)}  ${style('dim', `${kind}: ${call}`)}`);
  if (description !== undefined) terminal.line(description);
  for (const [member, value] of Object.entries(rest)) {
    const [first = '', ...more] = drawJson(value, style);
    terminal.lines([`${style('dim', `${member}:`)} ${first}`, ...more]);
  }
}

function unknownTool(manifest: DescribedApp, name: string): CommandError {
  const names = [...manifest.queries, ...manifest.actions].map((tool) => tool.name);
  const meant = nearest(name, names);
  const hint = meant === undefined ? `It has: ${names.join(', ')}` : `Did you mean "${meant}"?`;
  return new CommandError(`"${manifest.app}" has no query or action "${name}".`, hint);
}
