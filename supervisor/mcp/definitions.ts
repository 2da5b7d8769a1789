/** Defines the gateway's own MCP tools, those of the dispatcher and for SQL, and checks their arguments. */
import { SvcError } from '../../protocol/errors.ts';

export type ObjectSchema = { type: 'object'; [keyword: string]: unknown };

/** A tool as `tools/list` shows it. */
export type McpTool = {
  name: string;
  description?: string;
  inputSchema: ObjectSchema;
  outputSchema?: ObjectSchema;
  annotations: { readOnlyHint: boolean; destructiveHint?: boolean };
  _meta?: Record<string, unknown>;
};

const NAME = { type: 'string', minLength: 1 };
const INPUT = { type: 'object', description: 'What the tool takes; svc_describe shows its schema.' };

/** The tools of `/svc/_mcp`. */
export const DISPATCHER_TOOLS: McpTool[] = [
  {
    name: 'svc_describe',
    description:
      'What apps there are; with "app", what that app can do; with "query" or "action" too, the schema of that one.',
    inputSchema: { type: 'object', properties: { app: NAME, query: NAME, action: NAME }, additionalProperties: false },
    annotations: { readOnlyHint: true },
  },
  {
    name: 'svc_read',
    description: 'Run a query of an app. It changes nothing.',
    inputSchema: {
      type: 'object',
      properties: { app: NAME, query: NAME, input: INPUT },
      required: ['app', 'query'],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: 'svc_write',
    description: 'Run an action of an app. It may change the data of the app.',
    inputSchema: {
      type: 'object',
      properties: { app: NAME, action: NAME, input: INPUT },
      required: ['app', 'action'],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: false },
  },
];

/** A tool of drafts. */
export const DRAFT_CHECK: McpTool = {
  name: 'svc_draft_check',
  description:
    'What keeps the draft from running as its files are now, or from being published: each fault with its file. ' +
    'It changes nothing. Call it after you edited files.',
  inputSchema: { type: 'object', properties: {}, additionalProperties: false },
  annotations: { readOnlyHint: true },
};

const SQL = { type: 'string', minLength: 1, description: 'One statement of SQLite; values go into "params".' };
const PARAMS = { description: 'An array for ?, an object for :name.', type: ['array', 'object'] };

/** Mode of `sql-tool.ts` and tool. */
export const SQL_TOOLS: { mode: 'describe' | 'read' | 'write'; shown: McpTool }[] = [
  {
    mode: 'describe',
    shown: {
      name: 'svc_sql_describe',
      description: 'The tables and views of an app, with their columns.',
      inputSchema: { type: 'object', properties: { app: NAME }, required: ['app'], additionalProperties: false },
      annotations: { readOnlyHint: true },
    },
  },
  {
    mode: 'read',
    shown: {
      name: 'svc_sql_read',
      description: 'Run one SQL statement that reads the data of an app: at most 200 rows, within 2 seconds.',
      inputSchema: sqlSchema(),
      annotations: { readOnlyHint: true },
    },
  },
  {
    mode: 'write',
    shown: {
      name: 'svc_sql_write',
      description:
        'Run one INSERT, UPDATE, DELETE or REPLACE on the data of an app. Its actions check more: prefer them.',
      inputSchema: sqlSchema(),
      annotations: { readOnlyHint: false, destructiveHint: true },
    },
  },
];

function sqlSchema(): ObjectSchema {
  return {
    type: 'object',
    properties: { app: NAME, sql: SQL, params: PARAMS },
    required: ['app', 'sql'],
    additionalProperties: false,
  };
}

/** Throws `INVALID_INPUT`; what the schemas of `DISPATCHER_TOOLS` say, which are all of one form. */
export function checkArguments({ name, inputSchema }: McpTool, args: Record<string, unknown>): void {
  const { properties, required = [] } = inputSchema as ObjectSchema & {
    properties: Record<string, { type: string | string[] }>;
    required?: string[];
  };
  const missing = required.find((member) => args[member] === undefined);
  if (missing !== undefined) throw wrongArgument(name, missing, 'is missing');
  for (const [member, value] of Object.entries(args)) {
    const property = Object.hasOwn(properties, member) ? properties[member] : undefined;
    if (property === undefined) throw wrongArgument(name, member, 'is not one of its arguments');
    if (Array.isArray(property.type) && (typeof value !== 'object' || value === null)) {
      throw wrongArgument(name, member, 'must be an array or an object');
    }
    if (property.type === 'string' && (typeof value !== 'string' || value === '')) {
      throw wrongArgument(name, member, 'must be a text');
    }
    if (property.type === 'object' && (typeof value !== 'object' || value === null || Array.isArray(value))) {
      throw wrongArgument(name, member, 'must be an object');
    }
  }
}

function wrongArgument(tool: string, member: string, why: string): SvcError {
  return new SvcError('INVALID_INPUT', `"${member.slice(0, 80)}" of ${tool} ${why}.`, {
    path: `/${member.slice(0, 80)}`,
  });
}
