/** Holds what an embedding host returned for a fire against the automation's `outputSchema`, as an actor's thread does for its own. */
import { readFileSync } from 'node:fs';
import { SvcError } from '../../protocol/errors.ts';
import type { OutputJob } from '../../protocol/jobs.ts';
import { checkOutput, loadValidators } from '../handler/validators.ts';
import { timeLimited } from './control.ts';

/** Throws `HANDLER_ERROR` with the first failing value in `path`. */
export function judgeOutput({ validators, automation, output }: OutputJob): void {
  timeLimited((about) => {
    about(new SvcError('HANDLER_ERROR', 'Checking the output took too long; make it or its schema simpler.'));
    const { automations } = loadValidators(readFileSync(validators, 'utf8'));
    checkOutput(automations, automation, () => (output === null ? undefined : JSON.parse(output)));
  });
}
