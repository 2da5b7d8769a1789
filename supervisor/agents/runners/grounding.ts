/**
 * Makes the text that an agent gets before the first message: what svc is, what its app has, and how to work (specification,
 * "Means of agents"). Each mode has a text, with placeholders for what differs from app to app.
 */
import { readFile } from 'node:fs/promises';
import type { ChatMode, HostTool } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Manifest } from '../../../protocol/manifest.ts';
import type { DraftFinding } from '../../authoring/draft-check.ts';
import { manifestOf } from '../../dispatch/describe.ts';
import type { Dispatcher } from '../../dispatch/dispatcher.ts';
import type { Scope } from '../../dispatch/scope.ts';
import { newTraceId } from '../../tree/actor/call.ts';
import { groundingFile } from '../../tree/entry-points.ts';

/** Tables as `svc_sql_describe` has them, as far as they are shown. */
export type ShownTable = { name: string; columns: { name: string; type: string }[] };

export type GroundingParts = {
  id: string;
  manifest: Pick<Manifest, 'name' | 'queries' | 'actions'>;
  tables: ShownTable[];
  hostTools: HostTool[];
};

type GroundingRequest = { mode: ChatMode; scope: Scope; hostTools: HostTool[] };

export class Grounding {
  readonly #dispatcher: Dispatcher;
  readonly #texts = new Map<ChatMode, Promise<string>>();

  constructor(dispatcher: Dispatcher) {
    this.#dispatcher = dispatcher;
  }

  /**
   * The text for an app. For a draft that cannot run it says so in place of the tools. Rejects with `UNKNOWN_APP`, and
   * for a live app with any other error that keeps it from being used.
   */
  async of({ mode, scope, hostTools }: GroundingRequest): Promise<string> {
    const text = await this.#text(mode);
    const { app } = scope;
    try {
      const manifest = await manifestOf(scope);
      const tables = await tablesOf(this.#dispatcher, scope);
      return filledIn(text, sections({ id: app, manifest, tables, hostTools }));
    } catch (error) {
      if (!(error instanceof SvcError) || mode === 'data' || error.status === 404) throw error;
      // Which fault it is comes with the message: an agent with other instructions is another program.
      const fault = 'The draft cannot be run as it is. Its tools answer with the fault until that is repaired.';
      return filledIn(text, { app: `\`${app}\``, tools: fault, tables: fault, hostTools: hostToolLines(hostTools) });
    }
  }

  #text(mode: ChatMode): Promise<string> {
    const known = this.#texts.get(mode) ?? readFile(groundingFile(mode), 'utf8');
    this.#texts.set(mode, known);
    return known;
  }
}

/** What is wrong with a draft, as a turn begins with it. Pure. */
export function findingsText(findings: readonly DraftFinding[]): string {
  const lines = findings.map(({ code, path, line, message }) => {
    const place = path === '' ? '' : `\`${path}${line === undefined ? '' : `:${line}`}\`: `;
    return `- ${place}${message.slice(0, LIMITS.errorMessageChars)} (${code})`;
  });
  const advice =
    'Repair this first, unless the message below says otherwise; the tool `svc_draft_check` says what is left of it.';
  return `The gateway found faults in the draft: it does not run as it is, or could not be published. ${advice}\n\n${lines.join('\n')}`;
}

type Sections = { app: string; tools: string; tables: string; hostTools: string };

/** Each at most as long as the limits say. Pure. */
export function sections({ id, manifest, tables, hostTools }: GroundingParts): Sections {
  return {
    app: `${JSON.stringify(manifest.name.slice(0, LIMITS.textChars))} (id \`${id}\`)`,
    tools: toolLines(manifest),
    tables: tableLines(tables),
    hostTools: hostToolLines(hostTools),
  };
}

/** Replaces placeholders in one pass, because the inserted text may look like one. */
export function filledIn(text: string, given: Sections): string {
  return text.replaceAll(/\{\{(\w+)\}\}/g, (place, name: string) =>
    Object.hasOwn(given, name) ? given[name as keyof Sections] : place,
  );
}

function toolLines({ queries, actions }: GroundingParts['manifest']): string {
  const tools = [
    ...queries.map((tool) => ({ kind: 'query', ...tool })),
    ...actions.map((tool) => ({ kind: 'action', ...tool })),
  ];
  const short = tools.map(({ kind, name, description = '' }) => `- ${kind} \`${name}\` ${oneLine(description)}`.trim());
  const whole = tools.map(({ input }, i) =>
    input === undefined ? short[i] : `${short[i]} Input: ${JSON.stringify(input)}`,
  ) as string[];
  const names = tools.map(({ kind, name }) => `- ${kind} \`${name}\``);
  return fitting(
    [whole, short, names],
    LIMITS.groundingToolsBytes,
    'The list of tools of the MCP server has them all.',
  );
}

function tableLines(tables: ShownTable[]): string {
  const whole = tables.map(
    ({ name, columns }) =>
      `- \`${name}\` (${columns.map((column) => `${column.name} ${column.type}`.trim()).join(', ')})`,
  );
  const names = tables.map(({ name }) => `- \`${name}\``);
  return fitting([whole, names], LIMITS.groundingTablesBytes, 'The resource "tables" of the MCP server has them all.');
}

function hostToolLines(tools: HostTool[]): string {
  const whole = tools.map(({ name, description = '' }) => `- \`${name}\` ${oneLine(description)}`.trim());
  const names = tools.map(({ name }) => `- \`${name}\``);
  return fitting([whole, names], LIMITS.groundingHostToolsBytes, '');
}

/** The first of the forms that fits; of the last as much as fits, and how much more there is. */
function fitting(forms: string[][], bytes: number, more: string): string {
  const fits = forms.find((lines) => Buffer.byteLength(lines.join('\n')) <= bytes);
  if (fits) return fits.length === 0 ? 'None.' : fits.join('\n');
  const lines = forms.at(-1) as string[];
  const taken: string[] = [];
  // The last line says what is missing.
  let left = bytes - 200;
  for (const line of lines) {
    left -= Buffer.byteLength(line) + 1;
    if (left < 0) break;
    taken.push(line);
  }
  return [...taken, `- … and ${lines.length - taken.length} more. ${more}`.trim()].join('\n');
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, LIMITS.textChars);
}

async function tablesOf(dispatcher: Dispatcher, scope: Scope): Promise<ShownTable[]> {
  const body = Buffer.from(JSON.stringify({ mode: 'describe' }));
  const answer = await new Promise<Uint8Array>((resolve, reject) => {
    const sink = { answered: (_status: number, bytes: Uint8Array) => resolve(bytes), failed: reject, faulted: reject };
    const request = { body, traceId: newTraceId, source: 'agent' } as const;
    dispatcher.sql(scope, request, sink).catch(reject);
  });
  return (JSON.parse(Buffer.from(answer).toString()) as { tables: ShownTable[] }).tables;
}
