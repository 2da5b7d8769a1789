/** Says of which app a run or the address of a webhook is, where this node has it. */
import { RUN_ID } from '../../protocol/routes/automations/runs-rows.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { Services } from '../services.ts';
import type { Locate } from './calls/finder.ts';

const ID = shape(RUN_ID);

export function locator({ automations: { catalog, runs } }: Pick<Services, 'automations'>): Locate {
  return ({ of, id }) => {
    if (of === 'webhook') return catalog.bySlug(id)?.app ?? null;
    return ID.holds(id) ? runs.get(id).then((run) => run?.app ?? null) : null;
  };
}
