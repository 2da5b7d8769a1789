/** Every route of the gateway, for the router and for the test of the documentation. */
import type { Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { authoringRoutes } from './authoring.ts';
import { automationRoutes } from './automations.ts';
import { backupRoutes } from './backup.ts';
import { codeRoutes } from './code.ts';
import { draftRoutes, gitStoreOf } from './drafts.ts';
import { fireRoutes } from './fire.ts';
import { hookRoutes } from './hooks.ts';
import { pageRoutes } from './pages.ts';
import { registryRoutes } from './registry.ts';
import { runRoutes } from './runs.ts';
import { sessionRoutes } from './sessions.ts';
import { settingsRoutes } from './settings.ts';
import { signInRoutes } from './sign-in.ts';
import { systemRoutes } from './system.ts';
import { tokenRoutes } from './tokens.ts';
import { toolRoutes } from './tools.ts';

export function allRoutes(services: Services): Route[] {
  const { apps, automations, templates, listening } = services;
  const { catalog, enablement, fires, runs, runEvents, webhooks } = automations;
  return [
    ...toolRoutes(services),
    ...registryRoutes(services),
    ...automationRoutes({
      catalog,
      enablement,
      listening,
      nextRunAt: (ref) => automations.scheduler.nextRunAt(ref),
      lastRuns: (refs) => runs.lastRuns(refs.flatMap((ref) => catalog.get(ref) ?? [])),
      registered: (app) => apps.registered(app),
    }),
    ...fireRoutes({ catalog, apps, fires }),
    ...runRoutes({ runs, runEvents, cancelRun: (runId) => fires.cancel(runId) }),
    ...hookRoutes(webhooks),
    ...settingsRoutes(services),
    ...systemRoutes(services),
    ...tokenRoutes(services),
    ...backupRoutes(services),
    ...sessionRoutes({ sessions: () => gitStoreOf(services).sessions, listening }),
    ...authoringRoutes({ authoring: () => gitStoreOf(services).authoring, templates, listening }),
    ...codeRoutes({ code: () => gitStoreOf(services).code, listening, log: services.log }),
    ...draftRoutes(services),
    ...signInRoutes({
      access: services.access,
      listening,
      registry: services.registry,
      sessions: async () => (await services.gitStore?.sessions.list())?.map(({ sessionId }) => sessionId) ?? [],
      appsOfSession: async (session) => (await services.gitStore?.sessions.apps(session)) ?? [],
    }),
    ...pageRoutes(services),
  ];
}
