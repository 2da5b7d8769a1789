/** Every route of the gateway, for the router and for the test of the documentation. */
import type { RunRecord } from '../../protocol/runs.ts';
import { senderSecret } from '../automations/webhooks/webhooks.ts';
import type { Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { agentRoutes } from './agents.ts';
import { authoringRoutes } from './authoring.ts';
import { automationRoutes, fireRoutes, hookRoutes } from './automations.ts';
import { blobRoutes } from './blobs.ts';
import { chatRoutes } from './chat.ts';
import { conversationRoutes } from './conversations.ts';
import { draftRoutes } from './drafts.ts';
import { liveRoutes } from './live.ts';
import { mcpRoutes } from './mcp.ts';
import { openApiRoutes } from './openapi.ts';
import { pageRoutes } from './pages.ts';
import { registryRoutes } from './registry.ts';
import { publicOriginOf } from './requests.ts';
import { runRoutes } from './runs.ts';
import { secretRoutes } from './secrets.ts';
import { sessionRoutes } from './sessions.ts';
import { settingsRoutes } from './settings.ts';
import { signInRoutes } from './sign-in.ts';
import { systemRoutes } from './system.ts';
import { tokenRoutes } from './tokens.ts';
import { toolRoutes } from './tools.ts';
import { transferRoutes } from './transfers.ts';

export function allRoutes(services: Services): Route[] {
  const { apps, automations } = services;
  const { catalog, enablement, fires, runs, runEvents, webhooks } = automations;
  const registered = (app: string) => apps.registered(app);
  const routes: Route[] = [
    ...toolRoutes(services),
    ...mcpRoutes(services),
    ...registryRoutes(services),
    ...automationRoutes({
      catalog,
      enablement,
      secretProblem: (app, name) => {
        const found = senderSecret(services.secrets, app, name);
        return 'problem' in found ? found.problem : null;
      },
      publicOrigin: (exchange) => publicOriginOf(exchange, services),
      nextRunAt: (ref) => automations.scheduler.nextRunAt(ref),
      lastRuns: (refs) => runs.lastRuns(refs.flatMap((ref) => catalog.get(ref) ?? [])),
      registered,
    }),
    ...fireRoutes({ catalog, registered, fires, now: automations.now }),
    ...runRoutes({ runs, runEvents, cancelRun: (runId) => cancelRun(services, runId) }),
    ...hookRoutes(webhooks),
    ...chatRoutes(services),
    ...settingsRoutes(services),
    ...secretRoutes(services),
    ...blobRoutes(services),
    ...systemRoutes(services),
    ...openApiRoutes(services, () => routes),
    ...agentRoutes(services),
    ...tokenRoutes(services),
    ...transferRoutes(services),
    ...sessionRoutes(services),
    ...authoringRoutes(services),
    ...draftRoutes(services),
    ...liveRoutes(services),
    ...conversationRoutes(services),
    ...signInRoutes(services),
    ...pageRoutes(services),
  ];
  return routes;
}

/** Of an automation or of a chat. */
async function cancelRun({ automations, chat }: Services, runId: string): Promise<RunRecord> {
  await chat.cancelRun(runId);
  return await automations.fires.cancel(runId);
}
