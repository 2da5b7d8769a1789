/** Lists the agents that the gateway can run, with their models and tools (specification, "Catalog of runners"). */
import {
  type RunnerReport,
  type RunnerReports,
  showDefaultRunner,
  showRunners,
} from '../../../protocol/routes/agents/agents-rows.ts';
import type { AnswerOf, Given } from '../../../protocol/routes/row.ts';
import type { AgentServices } from '../../agents/open-agents.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';

type DefaultRunner = Given<AnswerOf<typeof showDefaultRunner>>;

export function agentRoutes({ agents }: Services): Route[] {
  return [
    ...serve(showRunners, async ({ query: { refresh, refreshTools } }) => {
      const { catalog } = agents;
      await Promise.all([
        refresh === '1' && catalog?.refresh('models'),
        refreshTools === '1' && catalog?.refresh('tools'),
      ]);
      return byEngine((await catalog?.report()) ?? []);
    }),
    ...serve(showDefaultRunner, async ({ query: { refresh } }) => {
      if (refresh === '1') void agents.catalog?.refresh('models');
      return await runnerStatus(agents);
    }),
  ];
}

/** The members of each engine have its name before them. */
function byEngine(reports: RunnerReport[]): RunnerReports {
  const members = reports.flatMap(({ name, ...report }) =>
    Object.entries(report).map(([member, value]) => [name + member[0]?.toUpperCase() + member.slice(1), value]),
  );
  return Object.fromEntries(members);
}

/** Status of the default runner. */
async function runnerStatus({ catalog, runners, hostStatus }: AgentServices): Promise<DefaultRunner> {
  const host = await hostStatus?.();
  const name = (await runners?.default()) ?? null;
  const report = (await catalog?.report())?.find((one) => one.name === name);
  const shown = {
    models: report?.models ?? [],
    modelsStatus: report?.modelsStatus ?? 'cold',
  };
  if (host) return { ...host, ...shown };
  if (!report) return { kind: 'none', ok: false, detail: runners?.noRunner().message, ...shown };
  const { kind, available, signedIn, version, detail } = report;
  return { kind, ok: available && signedIn !== false, runner: report.name, version, signedIn, detail, ...shown };
}
