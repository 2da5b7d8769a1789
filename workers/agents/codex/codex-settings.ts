/** Makes the arguments of codex and the permissions of a conversation. The user's own settings never add to them. */
import { readFileSync, readlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import type { RunnerSpec, TurnOrder } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { TOOL_SERVER } from '../own-tools.ts';
import type { Params } from './json-rpc.ts';

/** The provider that we define, for a model server of the configuration or a key in the environment. */
export const OWN_PROVIDER = 'svc';

const TOKEN_VARIABLE = 'SVC_AGENT_TOKEN';
const KEY_VARIABLE = 'OPENAI_API_KEY';
const OPENAI = 'https://api.openai.com/v1';

/** The name of the sandbox that turns have. */
const SANDBOX = 'svc';
/** The variables that a command gets: not the token and keys, but the tag, by which we find commands. */
const COMMAND_VARIABLES = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_*', 'TZ', 'TERM', 'SVC_AGENT'];

/** Calls only the model, starts none of the user's programs, and gives up on a dead network. */
const QUIET = [
  'analytics.enabled=false',
  'check_for_update_on_startup=false',
  'notify=[]',
  'web_search="disabled"',
  'skills.include_instructions=false',
  'skills.bundled.enabled=false',
  'features.unbounded_connection_retries=false',
  ...[
    'apps',
    'plugins',
    'hooks',
    'memories',
    'multi_agent',
    'goals',
    'image_generation',
    'view_image',
    'skill_search',
  ].map((feature) => `features.${feature}=false`),
];

/** Names that its sandbox protects with empty folders, which would appear in the draft. */
const UNPROTECTED = ['.agents', '.aws', '.codex', '.git'];

/** The key for its own provider. */
export function keyOf({ env }: RunnerSpec): string | undefined {
  return env[KEY_VARIABLE];
}

/** The arguments of `codex` for its app-server. */
export function serverArguments(spec: RunnerSpec): string[] {
  const hasProvider = spec.baseUrl !== undefined || keyOf(spec) !== undefined;
  const settings = hasProvider ? [...QUIET, ...ownProvider(spec)] : QUIET;
  return ['app-server', ...settings.flatMap((setting) => ['-c', setting])];
}

/** JSON strings are valid TOML. Without a key it sends none. */
function ownProvider(spec: RunnerSpec): string[] {
  const members = {
    name: OWN_PROVIDER,
    base_url: spec.baseUrl ?? spec.env.OPENAI_BASE_URL ?? OPENAI,
    wire_api: 'responses',
    request_max_retries: 2,
    stream_max_retries: 2,
    ...(keyOf(spec) === undefined ? {} : { env_key: KEY_VARIABLE }),
  };
  return Object.entries(members).map(
    ([name, value]) => `model_providers.${OWN_PROVIDER}.${name}=${JSON.stringify(value)}`,
  );
}

/** The token is not an argument, because all users can see those. */
export function tokenEnvironment({ gateway }: TurnOrder): Record<string, string> {
  return { [TOKEN_VARIABLE]: gateway.token };
}

/**
 * The members of `thread/start` and `thread/resume` that say what the conversation may do. Commands see the system's own
 * programs, the folder (which they may change in mode `full`) and `programFolders`; they have no network. Mode `data` has no
 * commands. `otherServers` are the MCP servers of the user's own settings.
 */
export function threadSettings(order: TurnOrder, programFolders: string[], otherServers: string[]): Params {
  const isFull = order.mode === 'full';
  const readable = [':minimal', ...programFolders].map((path) => [path, 'read']);
  const inFolder = ['.', ...UNPROTECTED].map((path) => [path, isFull ? 'write' : 'read']);
  return {
    cwd: order.folder,
    approvalPolicy: 'on-request',
    approvalsReviewer: 'user',
    permissions: SANDBOX,
    config: {
      [`permissions.${SANDBOX}`]: {
        filesystem: { ...Object.fromEntries(readable), ':workspace_roots': Object.fromEntries(inFolder) },
        network: { enabled: false },
      },
      'shell_environment_policy.include_only': COMMAND_VARIABLES,
      [`mcp_servers.${TOOL_SERVER}`]: {
        url: order.gateway.url,
        bearer_token_env_var: TOKEN_VARIABLE,
        default_tools_approval_mode: 'approve',
        tool_timeout_sec: LIMITS.toolTimeoutMs / 1000,
        required: true,
      },
      ...Object.fromEntries(otherServers.map((name) => [`mcp_servers.${name}.enabled`, false])),
      ...(isFull ? {} : { 'features.shell_tool': false, 'features.unified_exec': false, project_doc_max_bytes: 0 }),
    },
  };
}

/** Folders of a process's program and of its children's: the sandbox starts codex itself again. Empty except on Linux. */
export function programFolders(pid: number): string[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
    const programs = [String(pid), ...children].map((one) => readlinkSync(`/proc/${one}/exe`));
    return [...new Set(programs.map((program) => dirname(program)))];
  } catch {
    return [];
  }
}
