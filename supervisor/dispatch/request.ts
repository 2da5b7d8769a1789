/** Types of a tool's call and of the receiver of its answer. */

import type { ActionSummary, QuerySummary } from '../../protocol/manifest.ts';
import type { HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import type { Reads } from '../results/results.ts';
import type { CallReply, CallTiming } from '../tree/actor/call.ts';
import type { Change } from './change-streams.ts';
import type { App } from './scope.ts';

/** A tool of an app that can be called now. */
export type Target =
  | { app: App; kind: 'query'; tool: QuerySummary }
  | { app: App; kind: 'action'; tool: ActionSummary };

/** What a person is asked. `detail` is what the action does, as its manifest says it, and the JSON text of the input. */
export type Confirmation = { app: string; action: string; detail: string };

/**
 * Resolves when a person has allowed it, or none is there to ask; rejects with `NOT_CONFIRMED`. `signal` aborts when the caller
 * has left: the question is withdrawn.
 */
export type Confirm = (asked: Confirmation, signal?: AbortSignal) => Promise<void>;

/**
 * The parameters of a call. `body` is valid JSON text whose `input` member is the input; empty for `{}`. `tracked` asks what a
 * query read, even if its result is not kept. `traceId` makes the trace id when the call runs, or the whole `traceparent` where it
 * is part of a span. `confirm` asks a person before an action that wants it runs; absent where the caller can ask none.
 */
export type Request = {
  body: Uint8Array;
  traceId(): string;
  source: Change['source'];
  caller: HandlerCaller;
  tracked?: boolean;
  confirm?: Confirm | undefined;
};

/** Where the answer of a call goes, see `CallReply`. `answered` copies the body before it returns; `reads` are those of a query. */
export type Sink = {
  answered(status: number, body: Uint8Array, timing: CallTiming, reads?: Reads): void;
} & Pick<CallReply, 'failed' | 'faulted'>;
