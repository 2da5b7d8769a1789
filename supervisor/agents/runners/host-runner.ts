/** A host's `conversationRunner` as what runs turns. */
import { SvcError } from '../../../protocol/errors.ts';
import type { ConversationRunner } from '../../extension-points.ts';
import type { TurnRunner } from '../turns/turns.ts';

/** What clients see as the name of the host's runner. */
const HOST = 'host';

export function hostRunner(run: ConversationRunner): TurnRunner {
  return {
    choose: ({ runner = HOST, model }) => {
      if (runner !== HOST) throw new SvcError('BAD_REQUEST', `The only runner here is "${HOST}".`, { path: 'runner' });
      return { runner, ...(model === undefined ? {} : { model }) };
    },
    run,
  };
}
