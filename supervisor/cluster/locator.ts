/** Says of which app a run is, where this node has it, which app has the address of a webhook, and which one a workspace has first. */
import { WEBHOOK_ID } from '../../protocol/automations/automation.ts';
import { RUN_ID } from '../../protocol/routes/automations/runs-rows.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { WebhookDirectory } from '../../storage/cluster/webhook-directory.ts';
import type { WorkspaceDirectory } from '../../storage/cluster/workspace-directory.ts';
import type { Automations } from '../automations/automations.ts';
import type { Locate } from './calls/finder.ts';

const ID = shape(RUN_ID);

type Directories = { workspaces: Pick<WorkspaceDirectory, 'firstApp'>; webhooks: Pick<WebhookDirectory, 'appOf'> };

export function locator({ catalog, runs }: Automations, { workspaces, webhooks }: Directories): Locate {
  return ({ of, id }) => {
    if (of === 'workspace') return workspaces.firstApp(id);
    if (of === 'webhook') return catalog.bySlug(id)?.app ?? (WEBHOOK_ID.test(id) ? webhooks.appOf(id) : null);
    return ID.holds(id) ? runs.get(id).then((run) => run?.app ?? null) : null;
  };
}
