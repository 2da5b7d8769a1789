/**
 * Asks the runners for their versions, models and own tools, in the background of a start and on request (specification,
 * "Catalog of runners"). Models and tools are kept in `model-catalog.json`.
 */
import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import type { AgentModel, HostTool, ProbeOrder, ProbeResult } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { RunnerReport, SurfaceStatus } from '../../../protocol/routes/agents/agents-rows.ts';
import { listOf, object, type Schema, text } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { readJson, writeFileAtomic } from '../../../storage/files/atomic-file.ts';
import { SerialByKey } from '../../serial.ts';
import type { AgentProcess } from './agent-process.ts';
import type { Runners } from './runners.ts';

type CatalogOptions = {
  runners: Runners;
  agents: Pick<AgentProcess, 'probe'>;
  /** `model-catalog.json`. */
  file: string;
  /** Where agents are asked: an empty folder, which is made when it is missing. */
  folder: string;
  log: { warn(fields: object, message: string): void };
};

const NAME = { type: 'string', minLength: 1, maxLength: LIMITS.textChars } as const;
const WORDS = { type: 'string', cut: LIMITS.textChars } as const;
const items = <const S extends Schema>(item: S) => ({ ...listOf(item), maxItems: LIMITS.catalogItems });
const SURFACES = object(
  {},
  {
    models: items(object({ id: NAME }, { name: WORDS, description: WORDS, isDefault: { const: true } })),
    tools: items(object({ name: NAME }, { description: WORDS })),
  },
);
/** Of an answer. */
const LISTED = shape(SURFACES);
const KEPT = shape(
  object({
    runners: {
      type: 'object',
      additionalProperties: object({ of: text }, SURFACES.properties),
    },
  }),
);

type Surface = 'models' | 'tools';
type Listed = { models: AgentModel[]; tools: HostTool[] };
type Want = ProbeOrder['want'];

/** The catalog's data on one runner. */
type Known = Listed & {
  status: Record<Surface, SurfaceStatus>;
  version: string | null;
  signedIn: boolean | null;
  available: boolean;
  /** Whether its program existed at the last check; null before the first one. */
  found: boolean | null;
  details: Partial<Record<Want, string>>;
};

export class RunnerCatalog {
  readonly #options: CatalogOptions;
  readonly #known = new Map<string, Known>();
  /** Probes under way, by `<want> <runner>`: callers that want the same share one. */
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #serial = new SerialByKey();
  readonly #ended = new AbortController();

  constructor(options: CatalogOptions) {
    this.#options = options;
    for (const name of options.runners.names) this.#known.set(name, cold());
  }

  /** Reads what was kept, then asks every runner that is found, in the background. */
  async open(): Promise<void> {
    const { file, runners, log } = this.#options;
    try {
      const kept = KEPT.part(await readJson(file));
      for (const name of runners.names) this.#recall(name, kept?.runners[name]);
    } catch (error) {
      log.warn({ err: error }, 'What was known of the runners cannot be read; they are asked again.');
    }
    void this.#warm();
  }

  /** Ends what is being asked. */
  stop(): void {
    this.#ended.abort();
  }

  models(name: string): readonly AgentModel[] {
    return this.#known.get(name)?.models ?? [];
  }

  tools(name: string): readonly HostTool[] {
    return this.#known.get(name)?.tools ?? [];
  }

  /** All runners, in the order of the configuration. Waits for probes of versions, and starts none twice. */
  async report(): Promise<RunnerReport[]> {
    const { runners } = this.#options;
    await Promise.all(runners.names.map((name) => this.#noticed(name)));
    return runners.names.map((name) => {
      const { status, details, found: _found, ...known } = this.#of(name);
      const isOut = known.signedIn === false ? 'Nobody is signed in to it on the machine of the gateway.' : null;
      const detail = details.version ?? isOut ?? details.models ?? details.tools ?? null;
      const { kind } = runners.entry(name);
      const enforcesData = runners.enforcesData(name);
      return { name, kind, enforcesData, ...known, modelsStatus: status.models, toolsStatus: status.tools, detail };
    });
  }

  /** Asks every runner that is found again, also whether it is there. Resolves when all have answered; never rejects. */
  async refresh(surface: Surface): Promise<void> {
    const { names } = this.#options.runners;
    await Promise.all(
      names.map(async (name) => {
        await this.#detect(name);
        if (this.#of(name).available) await this.#enumerate(name, surface);
      }),
    );
  }

  /** One after the other, so that they do not slow down the start. */
  async #warm(): Promise<void> {
    for (const name of this.#options.runners.names) {
      await this.#detect(name);
      if (!this.#of(name).available) continue;
      await this.#enumerate(name, 'models');
      await this.#enumerate(name, 'tools');
    }
  }

  /** A program that came or went since is noticed without being started. */
  async #noticed(name: string): Promise<void> {
    const known = this.#of(name);
    const found = (await this.#options.runners.missing(name)) === null;
    if (known.found === null || known.found !== found) await this.#detect(name);
    else await this.#underWay.get(`version ${name}`);
  }

  #detect(name: string): Promise<void> {
    return this.#once(`version ${name}`, async () => {
      const { runners } = this.#options;
      const known = this.#of(name);
      const missing = await runners.missing(name);
      known.found = missing === null;
      if (missing !== null) {
        Object.assign(known, {
          available: false,
          version: null,
          details: { version: `There is no program ${missing}.` },
        });
        return;
      }
      // There is no program to ask. The list of models shows whether the server answers.
      if (runners.entry(name).kind === 'model') {
        known.available = true;
        return;
      }
      const answer = await this.#probe(name, 'version');
      const fault = answer?.fault?.slice(0, LIMITS.errorMessageChars);
      known.available = answer !== null && fault === undefined;
      known.version = answer?.version?.slice(0, LIMITS.textChars) ?? null;
      if (fault !== undefined) known.details.version = fault;
    });
  }

  #enumerate(name: string, surface: Surface): Promise<void> {
    return this.#once(`${surface} ${name}`, async () => {
      const known = this.#of(name);
      known.status[surface] = 'loading';
      const answer = await this.#probe(name, surface);
      const found = LISTED.part(answer)?.[surface] ?? [];
      // An empty answer does not replace the list: the agent may have been asked at a bad moment.
      if (found.length > 0) {
        Object.assign(known, { [surface]: found });
        await this.#keep();
      }
      known.status[surface] = answer === null ? 'failed' : 'ready';
    });
  }

  /** Null when the runner did not answer, which its details then say. Never rejects. */
  async #probe(name: string, want: Want): Promise<ProbeResult | null> {
    const { runners, agents, folder } = this.#options;
    const { details } = this.#of(name);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const { cwd: _cwd, ...runner } = runners.spec(name);
      const answer = await agents.probe({ runner, want, folder }, this.#ended.signal);
      delete details[want];
      if (answer.signedIn !== undefined) this.#of(name).signedIn = answer.signedIn;
      return answer;
    } catch (error) {
      details[want] = (error as Error).message.slice(0, LIMITS.errorMessageChars);
      return null;
    }
  }

  #once(what: string, work: () => Promise<void>): Promise<void> {
    const underWay = this.#underWay.get(what) ?? work().finally(() => this.#underWay.delete(what));
    this.#underWay.set(what, underWay);
    return underWay;
  }

  /** One after the other, each with the results so far. */
  #keep(): Promise<void> {
    const { file, runners, log } = this.#options;
    return this.#serial.run(file, async () => {
      const entries = runners.names.map((name) => {
        const { models, tools } = this.#of(name);
        return [name, { of: this.#fingerprint(name), models, tools }];
      });
      const text = `${JSON.stringify({ runners: Object.fromEntries(entries) }, null, 2)}\n`;
      await writeFileAtomic(file, text).catch((error: unknown) =>
        log.warn({ err: error }, 'What is known of the runners could not be stored.'),
      );
    });
  }

  #recall(name: string, entry: ({ of: string } & Partial<Listed>) | undefined): void {
    if (entry?.of !== this.#fingerprint(name)) return;
    const known = this.#of(name);
    const { models = [], tools = [] } = entry;
    Object.assign(known, { models, tools });
    for (const surface of ['models', 'tools'] as const) if (known[surface].length > 0) known.status[surface] = 'ready';
  }

  /** Tells a runner from another one that later has its name: what was stored of the first is not used. */
  #fingerprint(name: string): string {
    const { kind, command, baseUrl, api } = this.#options.runners.entry(name);
    return createHash('sha256')
      .update(JSON.stringify([kind, command, baseUrl, api]))
      .digest('hex')
      .slice(0, 16);
  }

  #of(name: string): Known {
    return this.#known.get(name) as Known;
  }
}

function cold(): Known {
  return {
    models: [],
    tools: [],
    status: { models: 'cold', tools: 'cold' },
    version: null,
    signedIn: null,
    available: false,
    found: null,
    details: {},
  };
}
