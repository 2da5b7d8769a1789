/** Makes the environment of a runner's program from a list of variables. No other variable of the gateway reaches it. Pure. */
import type { RunnerEntry, RunnerKind } from '../../../protocol/agents/agents.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Variables that programs need to be found, to find their user's files, and to reach the network. */
const COMMON = words(
  `PATH HOME USER LOGNAME SHELL LANG LC_* TZ TERM NODE_EXTRA_CA_CERTS SSL_CERT_DIR SSL_CERT_FILE
   HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy`,
);

/** The variables of each kind's sign-in. */
const OF_KIND: Record<RunnerKind, string[]> = {
  codex: words('CODEX_HOME OPENAI_API_KEY OPENAI_BASE_URL'),
  'claude-code': words(
    'CLAUDE_CONFIG_DIR CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC ANTHROPIC_*',
  ),
  acp: words('XDG_*'),
  model: [],
};

/** The variable in which a kind expects the key that `apiKeyEnv` names; other kinds expect it under that name. */
const KEY_NAMES: Partial<Record<RunnerKind, string>> = { codex: 'OPENAI_API_KEY', 'claude-code': 'ANTHROPIC_API_KEY' };

/** The variable in which the program of an entry gets the key that `apiKeyEnv` names. */
export function keyVariableOf({ kind, apiKeyEnv }: RunnerEntry): string | undefined {
  return kind === 'model' || apiKeyEnv === undefined ? undefined : (KEY_NAMES[kind] ?? apiKeyEnv);
}

/** All that the program of an entry gets; empty for `model`, which starts none. */
export function runnerEnvironment(entry: RunnerEntry, from: Environment): Record<string, string> {
  const { kind, apiKeyEnv, env = {} } = entry;
  if (kind === 'model') return {};
  const isKept = matcher([...COMMON, ...OF_KIND[kind]]);
  const kept = Object.entries(from).filter((one): one is [string, string] => one[1] !== undefined && isKept(one[0]));
  const key = apiKeyEnv === undefined ? undefined : from[apiKeyEnv];
  const variable = keyVariableOf(entry);
  const keyed = variable === undefined || key === undefined ? {} : { [variable]: key };
  return reachingUs({ ...Object.fromEntries(kept), ...keyed, ...env });
}

/** The agent calls the gateway at a loopback address, where no proxy can reach it. */
function reachingUs(env: Record<string, string>): Record<string, string> {
  if (!Object.keys(env).some((name) => /^(?:https?|all)_proxy$/i.test(name))) return env;
  const direct = [env.NO_PROXY ?? env.no_proxy, '127.0.0.1', 'localhost'].filter(Boolean).join(',');
  return { ...env, NO_PROXY: direct, no_proxy: direct };
}

function matcher(names: string[]): (name: string) => boolean {
  const exact = new Set(names);
  const starts = names.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return (name) => exact.has(name) || starts.some((start) => name.startsWith(start));
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}
