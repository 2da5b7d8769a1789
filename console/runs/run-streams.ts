/** Follows runs as event streams: all of them, or what one run does. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { CHAT_RUNS, type RunEvent, type RunNode, type RunRecord } from '../../protocol/automations/runs.ts';
import { route } from '../../protocol/http/addresses.ts';
import { type Entry, entryOf, type Page, type Read, readPage } from '../app/logs/log-entries.ts';
import { EventStream } from '../bridge/streams/event-stream.ts';
import { BACK, type GatewayError, get, isSignedOut, SIGNED_IN } from '../gateway.ts';

const RETRY_MS = 3000;

type EventOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/**
 * Calls `onRun` with each run that starts or ends, and `onMissed` when some may have been missed. The stream is open while the page
 * is visible: a browser has six connections for all its tabs.
 */
export function useRunsStream(query: string, onRun: (run: RunRecord) => void, onMissed: () => void): void {
  const handlers = useRef({ onRun, onMissed });
  handlers.current = { onRun, onMissed };
  useEffect(() => {
    let source: EventStream | null = null;
    const follow = () => {
      if (document.visibilityState === 'hidden') {
        source?.close();
        source = null;
        return;
      }
      if (isSignedOut() || (source && source.readyState !== EventStream.CLOSED)) return;
      source = new EventStream(`/svc/_runs/_events${query}`);
      const missed = () => handlers.current.onMissed();
      source.on('open', missed);
      source.on('missed', missed);
      for (const type of ['run.start', 'run.end']) {
        source.on(type, ({ data }) => {
          handlers.current.onRun((JSON.parse(data) as EventOf<'run.start'>).run);
        });
      }
    };
    follow();
    // A lost connection is opened again by itself; a refused one is tried again here.
    const timer = setInterval(follow, RETRY_MS);
    document.addEventListener('visibilitychange', follow);
    addEventListener(SIGNED_IN, follow);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', follow);
      removeEventListener(SIGNED_IN, follow);
      source?.close();
    };
  }, [query]);
}

/** A call of a run; its answer is there once it has ended. `said` is what an agent has written so far. */
export type ShownNode = Pick<RunNode, 'ordinal' | 'batchId' | 'kind' | 'name' | 'args' | 'startedAt'> &
  Partial<RunNode> & { said: string };

type FollowedRun = {
  run: RunRecord | undefined;
  nodes: readonly ShownNode[];
  /** What it logged. */
  lines: readonly Entry[];
  error: GatewayError | undefined;
};

const NOTHING: FollowedRun = { run: undefined, nodes: [], lines: [], error: undefined };
const MOST_LINES = 1000;
/** Pages of the app's log that are looked through for the lines of a run. */
const MOST_PAGES = 10;
/** A line may be a moment later than the end of its run, by the clock of another thread. */
const LATE_MS = 1000;

/** The last lines that a run logged that has ended: its events do not have them any more. */
async function loggedBy({ app, runId, queuedAt, endedAt }: RunRecord): Promise<Entry[]> {
  const address = `/svc/_logs?app=${encodeURIComponent(app)}`;
  let before: number | string | null = (endedAt ?? Date.now()) + LATE_MS;
  let rows: Read[] = [];
  for (let pages = 0; before !== null && pages < MOST_PAGES && rows.length < MOST_LINES; pages++) {
    const page: Page = await readPage(address, before);
    rows = [...page.rows.filter((row) => row.runId === runId), ...rows];
    before = (page.rows[0]?.ts ?? 0) < queuedAt ? null : page.earlier;
  }
  return rows.slice(-MOST_LINES).map(entryOf);
}

/** Follows one run with its calls and log: first what has happened, then what happens. */
export function useRun(runId: string): FollowedRun {
  const [followed, setFollowed] = useState<FollowedRun>(NOTHING);
  useEffect(() => {
    setFollowed(NOTHING);
    let lineKey = 0;
    let hasEnded = false;
    const change = (changed: (last: FollowedRun) => Partial<FollowedRun>) =>
      setFollowed((last) => ({ ...last, ...changed(last) }));
    const putNode = (node: ShownNode) =>
      change(({ nodes }) => ({
        nodes: [...nodes.filter(({ ordinal }) => ordinal !== node.ordinal), node].sort((a, b) => a.ordinal - b.ordinal),
      }));
    const putLine = (row: Read) =>
      change(({ lines }) => ({ lines: [...lines.slice(1 - MOST_LINES), entryOf(row, ++lineKey)] }));

    let source: EventStream;
    const follow = () => {
      source = new EventStream(route`/svc/_runs/${runId}/events`);
      const on = <Type extends RunEvent['type']>(type: Type, handle: (event: EventOf<Type>) => void) =>
        source.on(type, ({ data }) => handle(JSON.parse(data) as EventOf<Type>));
      // After a lost connection everything is sent again.
      source.on('open', () => change(() => ({ nodes: [], lines: [] })));
      on('run.start', ({ run }) => change(() => ({ run })));
      on('node.start', (node) => putNode({ ...node, said: '' }));
      on('node.delta', ({ ordinal, delta }) =>
        change(({ nodes }) => ({
          nodes: nodes.map((node) => (node.ordinal === ordinal ? { ...node, said: node.said + delta } : node)),
        })),
      );
      on('node.end', ({ node }) =>
        change(({ nodes }) => {
          const said = nodes.find(({ ordinal }) => ordinal === node.ordinal)?.said ?? '';
          const rest = nodes.filter(({ ordinal }) => ordinal !== node.ordinal);
          return { nodes: [...rest, { ...node, said }].sort((a, b) => a.ordinal - b.ordinal) };
        }),
      );
      on('log', ({ line }) => {
        const row = Object(line) as Partial<Read>;
        putLine({ ...row, ts: typeof row.ts === 'number' ? row.ts : Date.now() });
      });
      source.on('missed', ({ data }) =>
        putLine({ ts: Date.now(), msg: `${(JSON.parse(data) as { events: number }).events} events were left out.` }),
      );
      on('run.end', ({ run }) => {
        hasEnded = true;
        source.close();
        change(() => ({ run }));
        if (run.automation === CHAT_RUNS) return;
        // Who may not read the log sees what came live.
        loggedBy(run).then(
          (all) => change(({ lines }) => (all.length < lines.length ? {} : { lines: all })),
          () => {},
        );
      });
      source.on('error', () => {
        if (!hasEnded && source.readyState === EventStream.CLOSED) void read();
      });
    };
    // Events of an ended run have shortened values, and only a request tells why a stream does not open.
    const read = () =>
      get<RunRecord>(route`/svc/_runs/${runId}`).then(
        (run) => change((last) => ({ run: last.run?.endedAt ? last.run : run })),
        (error: GatewayError) => change(() => ({ error })),
      );
    void read();
    follow();
    // What a proxy says meanwhile is final for a stream.
    const back = () => {
      if (!hasEnded && source.readyState === EventStream.CLOSED) follow();
    };
    addEventListener(BACK, back);
    return () => {
      removeEventListener(BACK, back);
      source.close();
    };
  }, [runId]);
  return followed;
}
