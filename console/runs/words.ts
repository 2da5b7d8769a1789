/** Says how a run ended, and where it is shown. */
import type { ShownRun } from '../../protocol/answers.ts';
import { hrefOf } from '../address.ts';

/** How a run ended, in a line. */
export const outcomeOf = ({ summary, error }: Pick<ShownRun, 'summary' | 'error'>): string =>
  error ? `${error.code}: ${error.message}` : (summary ?? '');

export const runHref = (runId: string): string => hrefOf(['runs', runId]);
