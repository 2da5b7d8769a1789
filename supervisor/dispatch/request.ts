/** Types of a tool's call and of the receiver of its answer. */

import type { ActionSummary, QuerySummary } from '../../protocol/manifest.ts';
import type { HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import type { Reads } from '../results/results.ts';
import type { CallReply, CallTiming } from '../tree/actor/call.ts';
import type { App } from './apps.ts';
import type { Change } from './changes.ts';

/** A tool of an app that can be called now. */
export type Target =
  | { app: App; kind: 'query'; tool: QuerySummary }
  | { app: App; kind: 'action'; tool: ActionSummary };

/**
 * The parameters of a call. `body` is valid JSON text whose `input` member is the input; empty for `{}`. `tracked` asks what a
 * query read, even if its result is not kept. `traceId` makes the trace id when the call runs, or the whole `traceparent` where it
 * is part of a span.
 */
export type Request = {
  body: Uint8Array;
  traceId(): string;
  source: Change['source'];
  caller: HandlerCaller;
  tracked?: boolean;
};

/** Where the answer of a call goes, see `CallReply`. `answered` copies the body before it returns; `reads` are those of a query. */
export type Sink = {
  answered(status: number, body: Uint8Array, timing: CallTiming, reads?: Reads): void;
} & Pick<CallReply, 'failed' | 'faulted'>;
