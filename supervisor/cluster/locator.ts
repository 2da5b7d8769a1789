/** Says of which app a run or the address of a webhook is, where this node has it. */
import { RUN_ID } from '../../protocol/routes/automations/runs-rows.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { Automations } from '../automations/automations.ts';
import type { Locate } from './calls/finder.ts';

const ID = shape(RUN_ID);

export function locator({ catalog, runs }: Automations): Locate {
  return ({ of, id }) => {
    if (of === 'webhook') return catalog.bySlug(id)?.app ?? null;
    return ID.holds(id) ? runs.get(id).then((run) => run?.app ?? null) : null;
  };
}
