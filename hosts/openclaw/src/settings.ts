/** Reads the plugin's configuration: its own keys, and those of svc that it hands on. */
import { isAbsolute, join, resolve } from 'node:path';
import type { HostConfig } from './host-api.ts';

/** The id of the plugin, and its place in the host's configuration. */
export const PLUGIN = 'svc';
export const CONFIG_PATH = `plugins.entries.${PLUGIN}.config`;

export type Settings = {
  /** Absolute. */
  dataDir: string;
  /** The Node that the gateway runs on. */
  node: string;
  /** Whose workspace, model and permissions turns of chats and automations have. */
  agentId: string;
  /** Keys of svc's own configuration. */
  gateway: Record<string, unknown>;
};

const DEFAULT_AGENT = 'main';
const DEFAULT_PORT = 18_789;

export function settingsOf(config: HostConfig, stateDir: string): Settings {
  const { dataDir, node, agentId, ...given } = config.plugins?.entries?.[PLUGIN]?.config ?? {};
  const folder = typeof dataDir === 'string' ? dataDir : PLUGIN;
  const { list = [], entries = {} } = config.agents ?? {};
  const agents = [...list, ...Object.entries(entries).map(([id, entry]) => ({ id, default: entry?.default }))];
  const agent = agents.find((one) => one.default === true) ?? agents[0];
  // At an address of this machine's network any of its addresses is a name of the gateway.
  const isOpen = !['loopback', 'auto', undefined].includes(config.gateway?.bind);
  return {
    dataDir: isAbsolute(folder) ? resolve(folder) : join(stateDir, folder),
    node: typeof node === 'string' ? node : process.execPath,
    agentId: typeof agentId === 'string' ? agentId : (agent?.id ?? DEFAULT_AGENT),
    gateway: { ...(isOpen && { host: '0.0.0.0' }), ...given },
  };
}

/** Where programs of this machine reach the host; `argv` is the command line that started it, where it is known. */
export function hostUrl({ gateway }: HostConfig, env: NodeJS.ProcessEnv, argv: readonly string[] = []): string {
  const [, given] = /(?:^| )--port[ =](\d+)(?= |$)/.exec(argv.join(' ')) ?? [];
  const port = Number(given ?? env.OPENCLAW_GATEWAY_PORT) || gateway?.port || DEFAULT_PORT;
  return `${gateway?.tls?.enabled === true ? 'https' : 'http'}://127.0.0.1:${port}`;
}
