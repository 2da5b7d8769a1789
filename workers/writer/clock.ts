/** Time as the writer's logic sees it, so that tests decide when a lease ends. */

export type Clock = {
  /** Milliseconds that only grow. */
  now(): number;
  /** Calls `then` once after `ms`, unless the returned function was called before. */
  after(ms: number, then: () => void): () => void;
};

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, then) => {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};
