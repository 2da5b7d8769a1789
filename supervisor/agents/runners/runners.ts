/** Finds and chooses runners: those of the configuration, else those whose programs are on PATH (specification, "Runners"). */
import { access, constants, stat } from 'node:fs/promises';
import { delimiter, join, resolve } from 'node:path';
import {
  BUILT_IN_RUNNERS,
  ENFORCES_DATA,
  type RunnerEntry,
  type RunnerKind,
  type RunnerSpec,
} from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { keyVariableOf, runnerEnvironment } from './environment.ts';

type RunnersOptions = {
  /** Keys of the configuration. */
  runners: Record<string, RunnerEntry>;
  runner: string | null;
  /** The gateway's own environment. */
  env: Readonly<Record<string, string | undefined>>;
};

/** `usual`: the runner of the conversation. `limited`: for who does not manage the app. */
type Choice = { usual?: string | undefined; limited?: boolean | undefined };

/** The default program of each kind. */
const PROGRAMS: Partial<Record<RunnerKind, string>> = { codex: 'codex', 'claude-code': 'claude' };

const WHAT_TO_DO =
  'Install codex or claude on the machine of the gateway, or configure "runners" with the address of a model server.';

export class Runners {
  readonly #options: RunnersOptions;
  readonly #entries: ReadonlyMap<string, RunnerEntry>;
  readonly #isConfigured: boolean;

  constructor(options: RunnersOptions) {
    this.#options = options;
    const configured = Object.entries(options.runners);
    this.#isConfigured = configured.length > 0;
    this.#entries = new Map(
      this.#isConfigured ? configured : BUILT_IN_RUNNERS.map((kind) => [kind, { kind } satisfies RunnerEntry]),
    );
  }

  /** In the order of the configuration, whether or not their programs are there. */
  get names(): string[] {
    return [...this.#entries.keys()];
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** Throws `BAD_REQUEST` for an unknown name. */
  entry(name: string): RunnerEntry {
    const entry = this.#entries.get(name);
    if (entry) return entry;
    const message = `There is no runner "${name.slice(0, 80)}"; there are: ${this.names.join(', ')}.`;
    throw new SvcError('BAD_REQUEST', message, { path: 'runner' });
  }

  /** Whether an agent in mode `data` has the tools of its app alone, whatever it does. */
  enforcesData(name: string): boolean {
    return ENFORCES_DATA[this.entry(name).kind];
  }

  /**
   * The one that a turn asks for, else the usual one of its conversation, else the default. A limited turn has only those that
   * enforce mode `data`. Rejects with `BAD_REQUEST`, `FORBIDDEN` or `NO_RUNNER`.
   */
  async choose(asked: string | undefined, { usual, limited = false }: Choice = {}): Promise<string> {
    if (asked !== undefined) this.entry(asked);
    const stays = usual !== undefined && this.has(usual) ? usual : undefined;
    const name = asked ?? stays ?? (await this.default(limited));
    if (name === null) throw limited && (await this.default()) !== null ? noneForPages() : this.noRunner();
    if (limited && !this.enforcesData(name)) throw notForPages(name);
    if ((await this.missing(name)) === null) return name;
    throw new SvcError('NO_RUNNER', `The program of the runner "${name}" is not there. ${WHAT_TO_DO}`);
  }

  noRunner(): SvcError {
    return new SvcError('NO_RUNNER', `There is no agent on this gateway. ${WHAT_TO_DO}`);
  }

  /** The runner of turns that name none; null when nothing is configured or found. */
  async default(limited = false): Promise<string | null> {
    const may = (name: string) => !limited || this.enforcesData(name);
    const { runner } = this.#options;
    if (runner !== null && may(runner)) return runner;
    const names = this.names.filter(may);
    if (this.#isConfigured) return names[0] ?? null;
    for (const name of names) if ((await this.missing(name)) === null) return name;
    return null;
  }

  /** The name of a missing program; null when it exists or none is needed. Starts nothing. */
  async missing(name: string): Promise<string | null> {
    const { kind, command, env } = this.entry(name);
    const program = command?.[0] ?? PROGRAMS[kind];
    if (program === undefined) return null;
    const path = env?.PATH ?? this.#options.env.PATH ?? '';
    const places = program.includes('/') ? [resolve(program)] : path.split(delimiter).map((dir) => join(dir, program));
    for (const place of places) if (await isProgram(place)) return null;
    return program;
  }

  /** The runner's settings for the agents process. Throws `NO_RUNNER` when the variable of its key is not set. */
  spec(name: string): RunnerSpec {
    const { apiKeyEnv, env: _env, ...entry } = this.entry(name);
    const apiKey = apiKeyEnv === undefined ? undefined : this.#options.env[apiKeyEnv];
    if (apiKeyEnv !== undefined && apiKey === undefined) {
      const message = `The runner "${name}" needs the variable ${apiKeyEnv} in the environment of the gateway, for its key.`;
      throw new SvcError('NO_RUNNER', message);
    }
    const keyVariable = keyVariableOf(this.entry(name));
    return {
      name,
      ...entry,
      ...(keyVariable === undefined ? {} : { keyVariable }),
      env: runnerEnvironment(this.entry(name), this.#options.env),
      ...(entry.kind === 'model' && apiKey !== undefined ? { apiKey } : {}),
    };
  }
}

function notForPages(name: string): SvcError {
  const message = `The runner "${name}" does not enforce mode "data": it is for the console and tokens for "all". Name another one.`;
  return new SvcError('FORBIDDEN', message, { path: 'runner' });
}

function noneForPages(): SvcError {
  const message =
    'No agent of this gateway enforces mode "data", so pages have none. Configure a runner of kind codex, claude-code or model.';
  return new SvcError('NO_RUNNER', message);
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
