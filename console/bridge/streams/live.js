/**
 * Live queries of a page, for `svc.live`: all of them come over the page's one event stream, because a browser allows six
 * connections to an origin over all tabs.
 */

/** One stream has no more queries, and no longer address. */
const MOST_QUERIES = 50;
const MOST_CHARS = 7000;
/** How long a value waits for the answers of the page's own actions. */
const MOST_HELD_MS = 1000;

/**
 * `changed` is called when the stream has to be opened again, with other queries. `makeError` makes an error of an error's body.
 * `isWriting` says whether the page waits for the answer of an action: what the action wrote is told after it, so that a page that
 * shows a write before its answer never shows it twice.
 */
export function createLiveQueries({ changed, makeError, isWriting }) {
  /** Name and input as JSON → what is followed: its parts of an address, callbacks, and the latest event. */
  const all = new Map();
  /** The queries of the stream that is open, in the order of its address. */
  let streamed = [];
  let planned = false;
  /** Those whose latest event is yet to be told. */
  const held = new Set();
  let heldTimer;

  /** Pages subscribe to several queries in a row: one new stream has all of them. */
  function plan() {
    if (planned) return;
    planned = true;
    queueMicrotask(() => {
      planned = false;
      if ([...all.values()].some((one) => !streamed.includes(one))) changed();
    });
  }

  const addressOf = (list) => list.map(({ part }) => part).join('&');

  function tell({ event, data }, { callback, onError }) {
    // Of each callback its own: what one changes in it is not the others'.
    const answer = JSON.parse(data);
    if (event === 'data') callback(answer.data);
    else if (onError) onError(makeError(answer.error));
    else console.error(makeError(answer.error));
  }

  function tellHeld() {
    clearTimeout(heldTimer);
    const list = [...held];
    held.clear();
    for (const one of list) for (const follower of [...one.followers]) tell(one.latest, follower);
  }

  return {
    /** An action of the page was answered, and the page has seen the answer. */
    written() {
      if (!isWriting()) tellHeld();
    },

    /** Answers the function that ends it. Throws when the page follows too much. */
    follow(query, input, callback, onError) {
      const part = `query=${encodeURIComponent(query)}&input=${encodeURIComponent(JSON.stringify(input))}`;
      let one = all.get(part);
      if (!one) {
        const list = [...all.values(), { part }];
        if (list.length > MOST_QUERIES || addressOf(list).length > MOST_CHARS) {
          const message = `A page follows ${MOST_QUERIES} live queries at most, whose names and inputs fit in one address.`;
          throw makeError({ code: 'OVERLOADED', message });
        }
        one = { part, followers: new Set(), latest: null, id: '' };
        all.set(part, one);
        plan();
      }
      const follower = { callback, onError };
      one.followers.add(follower);
      if (one.latest !== null) {
        queueMicrotask(() => {
          if (one.followers.has(follower) && one.latest !== null) tell(one.latest, follower);
        });
      }
      return () => {
        one.followers.delete(follower);
        // The stream that is open goes on with it; the next one does without.
        if (one.followers.size === 0 && all.get(part) === one) all.delete(part);
      };
    },

    /**
     * For the next stream: `address` is what its address has for the queries, with what the page has already, empty for none;
     * `take` gets its events `data` and `error`.
     */
    next() {
      const list = [...all.values()];
      streamed = list;
      const had = ['', ...list.map(({ id }) => id)].join('.');
      return {
        address: list.length === 0 ? '' : `${addressOf(list)}&lastEventId=${had}`,
        take({ type, data, lastEventId }) {
          const { index } = JSON.parse(data);
          const one = list[index];
          const id = lastEventId.split('.')[index + 1] ?? '';
          // After a lost connection the same may come again.
          if (!one || one.id === id) return;
          Object.assign(one, { id, latest: { event: type, data } });
          if (held.size === 0 && isWriting()) heldTimer = setTimeout(tellHeld, MOST_HELD_MS);
          held.add(one);
          if (!isWriting()) tellHeld();
        },
      };
    },
  };
}
