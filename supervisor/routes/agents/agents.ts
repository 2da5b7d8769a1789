/** Lists the agents that the gateway can run, with their models and tools (specification, "Catalog of runners"). */

import type { AgentServices } from '../../agents/open-agents.ts';
import type { RunnerReport } from '../../agents/runners/catalog.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { queryOf } from '../requests.ts';

export function agentRoutes({ agents }: Services): Route[] {
  return [
    route('GET', '/svc/_agents/status', 'admin', async (exchange) => {
      const query = queryOf(exchange);
      const { catalog } = agents;
      await Promise.all([
        query.get('refresh') === '1' && catalog?.refresh('models'),
        query.get('refreshTools') === '1' && catalog?.refresh('tools'),
      ]);
      answerJson(exchange, 200, byEngine((await catalog?.report()) ?? []), NO_STORE);
    }),
    route('GET', '/svc/_turn/runner-status', 'admin', async (exchange) => {
      if (queryOf(exchange).get('refresh') === '1') void agents.catalog?.refresh('models');
      answerJson(exchange, 200, await runnerStatus(agents), NO_STORE);
    }),
  ];
}

/** The members of each engine have its name before them. */
function byEngine(reports: RunnerReport[]): Record<string, unknown> {
  const members = reports.flatMap(({ name, ...report }) =>
    Object.entries(report).map(([member, value]) => [name + member[0]?.toUpperCase() + member.slice(1), value]),
  );
  return Object.fromEntries(members);
}

/** Status of the default runner. */
async function runnerStatus({ catalog, runners, hostStatus }: AgentServices): Promise<Record<string, unknown>> {
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
  return { kind, ok: available && signedIn !== false, runner: name, version, signedIn, detail, ...shown };
}
