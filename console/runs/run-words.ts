/** Says what a run is of, and where it is shown. */
import type { ShownRun } from '../../protocol/answer-types.ts';
import { CHAT_RUNS } from '../../protocol/automations/runs.ts';
import { hrefOf } from '../address.ts';

/** The automation, or the app with "chat". */
export const nameOfRun = ({ app, automation, ref }: Pick<ShownRun, 'app' | 'automation' | 'ref'>): string =>
  automation === CHAT_RUNS ? `${app}, chat` : ref;

export const runHref = (runId: string): string => hrefOf(['runs', runId]);
