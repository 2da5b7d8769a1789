/** The routes about the agents that the gateway can run (specification, "Catalog of runners"). */
import { type AgentModel, type HostTool, MODEL, type RunnerKind } from '../../agents/agents.ts';
import { flag, listOf, type Of, object, oneOf, orNull, text, textOrNull, typed } from '../../shapes/schema.ts';
import { switched } from '../pieces.ts';
import { resource, row } from '../row.ts';

const ASKED = oneOf('cold', 'loading', 'ready', 'failed');
/** What is known of a runner. */
export type RunnerReport = {
  name: string;
  kind: RunnerKind;
  /** Whether pages may use it, see `Runners.enforcesData`. */
  enforcesData: boolean;
  /** Its program is there, says its version, and is not too old; always so for a model server. */
  available: boolean;
  version: string | null;
  /** Null where the agent does not say. */
  signedIn: boolean | null;
  models: readonly AgentModel[];
  modelsStatus: SurfaceStatus;
  tools: readonly HostTool[];
  toolsStatus: SurfaceStatus;
  /** The last error, for people; null when there was none. */
  detail: string | null;
};
/** `cold`: not asked yet. `failed`: the last time; what is shown was found before. */
export type SurfaceStatus = Of<typeof ASKED>;
/** Of all runners: each member has the name of its runner before it. */
export type RunnerReports = {
  [Member in Exclude<keyof RunnerReport, 'name'> as `${string}${Capitalize<Member>}`]: RunnerReport[Member];
};

const CLAUDE = { id: 'claude-sonnet-5', name: 'Sonnet', isDefault: true };

export const showRunners = row({
  method: 'GET',
  path: '/svc/_agents/status',
  needs: 'admin',
  title: 'List the runners',
  does: 'Says what is known of each [runner](configuration.md#runners).',
  query: object(
    {},
    {
      refresh: switched('Asks the runners for versions and models again, and waits for their answers'),
      refreshTools: switched('The same for their tools'),
    },
  ),
  answer: {
    json: typed<RunnerReports>({ type: 'object', wanted: 'an object' }),
    says: `The object is empty if the host runs the turns. Of each runner \`<e>\` it has:

- \`<e>Kind\`: the kind of its configuration;
- \`<e>EnforcesData\`: an agent in mode \`data\` has nothing but the tools of its app, so [pages](agents.md#chats-of-pages) may use it;
- \`<e>Available\`: its program exists, reports its version and is not too old;
- \`<e>Version\`, and \`<e>SignedIn\`, which is null if it does not say;
- \`<e>Models\`: array of \`{ id, name?, description?, isDefault? }\`;
- \`<e>Tools\`: array of \`{ name, description? }\`, the agent's built-in ones;
- \`<e>ModelsStatus\` and \`<e>ToolsStatus\`: \`cold\` (not asked yet), \`loading\`, \`ready\` or \`failed\`;
- \`<e>Detail\`: what went wrong, or null.`,
  },
  example: {
    'claude-codeKind': 'claude-code',
    'claude-codeEnforcesData': true,
    'claude-codeAvailable': true,
    'claude-codeVersion': '2.1.329',
    'claude-codeSignedIn': true,
    'claude-codeModels': [CLAUDE],
    'claude-codeModelsStatus': 'ready',
    'claude-codeTools': [{ name: 'Read', description: 'Reads a file.' }],
    'claude-codeToolsStatus': 'ready',
    'claude-codeDetail': null,
  },
});

export const showDefaultRunner = row({
  method: 'GET',
  path: '/svc/_turn/runner-status',
  needs: 'admin',
  title: 'Show the default runner',
  does: 'Says whether the default runner can be used.',
  query: object({}, { refresh: switched('Asks for models again without waiting') }),
  answer: {
    json: object(
      {
        kind: { ...text, says: '`none` without a runner' },
        ok: flag,
        models: listOf(MODEL),
        modelsStatus: { ...ASKED, says: '`cold`: not asked yet' },
      },
      {
        runner: text,
        version: textOrNull,
        signedIn: { ...orNull(flag), says: 'Null: it does not say' },
        detail: { ...textOrNull, says: 'What to do, if not `ok`' },
      },
    ),
    says: 'In a host with a [`runnerStatus`](embedding.md#extension-points) this is its answer, with the models.',
  },
  example: {
    kind: 'claude-code',
    ok: true,
    runner: 'claude-code',
    version: '2.1.329',
    signedIn: true,
    detail: null,
    models: [CLAUDE],
    modelsStatus: 'ready',
  },
});

export const AGENTS = resource({
  name: 'Agents',
  page: 'agents',
  about:
    'The gateway asks agents in the background when it starts, and keeps their answers in `model-catalog.json`; an empty answer replaces nothing. To find an agent, it runs only `--version`, for at most 5 s.',
  rows: [showRunners, showDefaultRunner],
});
