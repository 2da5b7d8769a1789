/** Simulates the world outside of tested apps: the clock, the network of `ctx.fetch`, and the people who get notices. */
import type { Relay } from '../protocol/rules/egress.ts';

/** Times are milliseconds since the epoch. */
export type SimulatedClock = {
  now(): number;
  /** Calls `wake` once when `ms` have passed, unless the function that it returns was called before. */
  setTimer(ms: number, wake: () => void): () => void;
  /** Calls `listener` whenever it shows another time, before anything is woken by it. */
  onChange(listener: () => void): void;
};

/** For a gateway that tests one app. */
export type Simulation = { clock: SimulatedClock; relay: Relay; notified(notice: SentNotice): void };

/** What an app gave to `ctx.notify`, without secrets. */
export type SentNotice = { title: string; text: string; url?: string };
