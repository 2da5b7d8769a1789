/** Checks names and values of an app's secrets, and gives the command that sets one (specification, "Secrets"). */
import { SvcError } from './errors.ts';
import { LIMITS } from './limits.ts';

/** What a list shows of a secret; never its value. `updatedAt` is in milliseconds since the epoch. */
export type SecretRecord = {
  name: string;
  /** `missing`: only the live app has it, the draft has no value yet. */
  state: 'set' | 'unreadable' | 'missing';
  updatedAt: number | null;
};

/** As for environment variables. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

export function isSecretName(name: string): boolean {
  return NAME.test(name);
}

/** Throws `BAD_REQUEST`. */
export function checkSecretName(name: string): void {
  if (isSecretName(name)) return;
  const rule = 'use 1 to 64 letters, digits and "_", not starting with a digit';
  throw new SvcError('BAD_REQUEST', `The name of a secret is not valid: ${rule}.`, { path: 'name' });
}

/** Throws `BAD_REQUEST` for a value that is not a string or not valid UTF-8, `PAYLOAD_TOO_LARGE` over `LIMITS.secretBytes`. */
export function checkSecretValue(value: unknown): asserts value is string {
  if (typeof value !== 'string' || value === '' || Buffer.from(value).toString() !== value)
    throw new SvcError('BAD_REQUEST', '"value" must be a text that is not empty.', { path: 'value' });
  if (Buffer.byteLength(value) > LIMITS.secretBytes)
    throw new SvcError('PAYLOAD_TOO_LARGE', `A secret may have at most ${LIMITS.secretBytes} bytes.`, {
      path: 'value',
    });
}

/** The command that sets a secret of a live app, or of a workspace's draft. */
export function setSecretCommand(app: string, name: string, workspace: string | undefined): string {
  return `svc secret set ${app} ${name}${workspace === undefined ? '' : ` --workspace ${workspace}`}`;
}
