/** Says of which app a run or the address of a webhook is, where this node has it, and which app a workspace has first. */
import { RUN_ID } from '../../protocol/routes/automations/runs-rows.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { WorkspaceDirectory } from '../../storage/cluster/workspace-directory.ts';
import type { Automations } from '../automations/automations.ts';
import type { Locate } from './calls/finder.ts';

const ID = shape(RUN_ID);

export function locator({ catalog, runs }: Automations, workspaces: WorkspaceDirectory): Locate {
  return ({ of, id }) => {
    if (of === 'workspace') return workspaces.all(id).then(([workspace]) => workspace?.apps[0] ?? null);
    if (of === 'webhook') return catalog.bySlug(id)?.app ?? null;
    return ID.holds(id) ? runs.get(id).then((run) => run?.app ?? null) : null;
  };
}
