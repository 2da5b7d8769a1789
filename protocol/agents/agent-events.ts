/** Checks the events of a runner: known types with valid members. */
import { shape } from '../shapes/shape.ts';
import { RUNNER_EVENTS, type RunnerEvent } from './agents.ts';

const EVENT = shape({ anyOf: Object.values(RUNNER_EVENTS) });

/** Whether a received value is an event of a runner: a known type, with members of the right kinds. */
export function isRunnerEvent(value: unknown): value is RunnerEvent {
  return EVENT.holds(value);
}
