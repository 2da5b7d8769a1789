/** What an entry of `runners` in the configuration may hold, by its kind (decisions, section 12). Pure. */

import {
  type EntryFault,
  entriesFault,
  environment,
  isObject,
  type MemberCheck,
  membersFault,
  oneOf,
  text,
  texts,
  webAddress,
} from '../entry-checks.ts';
import { MODEL_APIS, PERMISSION_POLICIES, RUNNER_KINDS, type RunnerKind } from './agents.ts';

const command: MemberCheck = (value) => {
  const fault = texts(value);
  if (fault) return fault;
  const [program] = value as string[];
  return program === undefined || program === '' ? { at: '', wanted: 'a list of a program and its arguments' } : null;
};

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const variable: MemberCheck = (value) =>
  typeof value === 'string' && VARIABLE.test(value) ? null : { at: '', wanted: 'the name of an environment variable' };

const COMMON = { kind: oneOf(RUNNER_KINDS), model: text, apiKeyEnv: variable, permission: oneOf(PERMISSION_POLICIES) };
const PROGRAM = { ...COMMON, command, env: environment, cwd: text };
const server = { baseUrl: webAddress('name the variable of the key in "apiKeyEnv"') };

/** Refuses a useless member instead of ignoring it. */
const MEMBERS: Record<RunnerKind, Record<string, MemberCheck>> = {
  codex: { ...PROGRAM, ...server },
  'claude-code': { ...PROGRAM, ...server },
  acp: PROGRAM,
  model: { ...COMMON, ...server, api: oneOf(MODEL_APIS) },
};

/** Members that an entry of each kind requires. */
const REQUIRED: Partial<Record<RunnerKind, string>> = { acp: 'command', model: 'baseUrl' };

/** The first fault of a value for `runners`, or null. `at` is the path below that key, such as `local.baseUrl`. */
export function runnersFault(value: unknown): EntryFault | null {
  return entriesFault(value, 'an object of runners by name', (entry) => {
    const kind = isObject(entry) ? RUNNER_KINDS.find((one) => one === entry.kind) : undefined;
    if (!isObject(entry) || kind === undefined)
      return { at: '', wanted: `an object with a "kind", one of ${RUNNER_KINDS.join(', ')}` };
    const missing = REQUIRED[kind];
    if (missing !== undefined && !Object.hasOwn(entry, missing))
      return { at: '', wanted: `an object with "${missing}", as its kind is ${kind}` };
    return membersFault(entry, MEMBERS[kind]);
  });
}
