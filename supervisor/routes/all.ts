/** Lists every route of the gateway, for the router and the test of the documentation. */
import { senderSecret } from '../automations/webhooks/webhooks.ts';
import type { Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { agentRoutes } from './agents/agents-routes.ts';
import { chatRoutes } from './agents/chat-routes.ts';
import { conversationRoutes } from './agents/conversations-routes.ts';
import { mcpRoutes } from './agents/mcp-routes.ts';
import { blobRoutes } from './app/blobs-routes.ts';
import { pageRoutes } from './app/pages-routes.ts';
import { streamRoutes } from './app/streams-routes.ts';
import { toolRoutes } from './app/tools-routes.ts';
import { authoringRoutes } from './authoring/authoring-routes.ts';
import { draftRoutes } from './authoring/drafts-routes.ts';
import { workspaceRoutes } from './authoring/workspaces-routes.ts';
import { automationEditRoutes } from './automations/automation-edit-routes.ts';
import { automationRoutes, fireRoutes, hookRoutes } from './automations/automations-routes.ts';
import { runRoutes } from './automations/runs-routes.ts';
import { clusterRoutes } from './operations/cluster-routes.ts';
import { noticeRoutes } from './operations/notices-routes.ts';
import { registryRoutes } from './operations/registry-routes.ts';
import { secretRoutes } from './operations/secrets-routes.ts';
import { settingsRoutes } from './operations/settings-routes.ts';
import { systemRoutes } from './operations/system-routes.ts';
import { tokenRoutes } from './operations/tokens-routes.ts';
import { transferRoutes } from './operations/transfers-routes.ts';
import { trashRoutes } from './operations/trash-routes.ts';
import { accountRoutes } from './people/accounts-routes.ts';
import { connectionRoutes } from './people/connections-routes.ts';
import { oauthRoutes } from './people/oauth-routes.ts';
import { passkeyRoutes } from './people/passkey-routes.ts';
import { peopleRoutes } from './people/people-routes.ts';
import { pictureRoutes } from './people/picture-routes.ts';
import { providerRoutes } from './people/providers-routes.ts';
import { shareRoutes } from './people/shares-routes.ts';
import { signInRoutes } from './people/sign-in-routes.ts';
import { publicOriginOf } from './requests.ts';

export function allRoutes(services: Services): Route[] {
  const { apps, automations } = services;
  const { catalog, enablement, fires, runs, runEvents, webhooks } = automations;
  const registered = (app: string) => apps.of(app).exists();
  return [
    ...toolRoutes(services),
    ...mcpRoutes(services),
    ...registryRoutes(services),
    ...trashRoutes(services),
    ...automationRoutes({
      catalog,
      enablement,
      secretProblem: (app, name) => {
        const found = senderSecret(services.secrets, app, name);
        return 'problem' in found ? found.problem : null;
      },
      publicOrigin: (host) => publicOriginOf(host, services),
      get times() {
        return automations.scheduler.times;
      },
      now: automations.now,
      nextRunAt: (ref) => automations.scheduler.nextRunAt(ref),
      lastRuns: (refs) => runs.lastRuns(refs.flatMap((ref) => catalog.get(ref) ?? [])),
      registered,
    }),
    ...automationEditRoutes(services),
    ...fireRoutes({ catalog, registered, fires, now: automations.now }),
    ...runRoutes({ runs, runEvents, cancelRun: (runId) => automations.engine.cancel(runId) }),
    ...hookRoutes(webhooks),
    ...chatRoutes(services),
    ...settingsRoutes(services),
    ...secretRoutes(services),
    ...blobRoutes(services),
    ...systemRoutes(services),
    ...clusterRoutes(services),
    ...agentRoutes(services),
    ...tokenRoutes(services),
    ...noticeRoutes(services),
    ...transferRoutes(services),
    ...workspaceRoutes(services),
    ...authoringRoutes(services),
    ...draftRoutes(services),
    ...streamRoutes(services),
    ...conversationRoutes(services),
    ...signInRoutes(services),
    ...accountRoutes(services),
    ...passkeyRoutes(services),
    ...peopleRoutes(services),
    ...pictureRoutes(services),
    ...oauthRoutes(services),
    ...connectionRoutes(services),
    ...providerRoutes(services),
    ...shareRoutes(services),
    ...pageRoutes(services),
  ];
}
