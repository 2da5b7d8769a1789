/** Removes an agent's secrets from messages about it: programs and servers repeat keys in their errors. Pure. */
import type { RunnerSpec } from '../../protocol/agents/agents.ts';

const SECRET = /KEY|TOKEN|SECRET|PASSWORD/i;
/** Shorter values occur in unrelated texts. */
const MIN_CHARS = 8;

/** The text, with `[<name>]` for the key of the model server, for each variable that is called like a secret, and for `token`. */
export function withoutSecrets(text: string, { env, apiKey }: RunnerSpec, token = ''): string {
  const secrets = Object.entries(env).filter(([name]) => SECRET.test(name));
  secrets.push(['key', apiKey ?? ''], ['token', token]);
  return secrets
    .filter(([, value]) => value.length >= MIN_CHARS)
    .reduce((rest, [name, value]) => rest.replaceAll(value, () => `[${name}]`), text);
}
