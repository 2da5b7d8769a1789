/** Follows runs as event streams: all of them, or what one run does. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { CHAT_RUNS, type RunEvent, type RunNode, type RunRecord } from '../../protocol/automations/runs.ts';
import { addressOf } from '../../protocol/http/client.ts';
import type { Sent } from '../../protocol/routes/api.ts';
import { type Entry, entryOf, type Page, type Read, readPage } from '../app/logs/log-entries.ts';
import { followed, type GatewayError, gateway } from '../gateway.ts';

/** What the streams of runs have: the events, and how many of them were left out. */
type Told = RunEvent | { type: 'missed'; events: number };

/**
 * Calls `onRun` with each run that starts or ends, and `onMissed` when some may have been missed. The stream is open while the page
 * is visible: a browser has six connections for all its tabs.
 */
export function useRunsStream(
  query: Sent<'GET /svc/_runs/_events'>['query'],
  onRun: (run: RunRecord) => void,
  onMissed: () => void,
): void {
  const handlers = useRef({ onRun, onMissed });
  handlers.current = { onRun, onMissed };
  const address = addressOf('GET /svc/_runs/_events', { query });
  useEffect(() => {
    let end: (() => void) | undefined;
    const onOpen = () => handlers.current.onMissed();
    const onEvent = ({ data }: { data: string }) => {
      const told = JSON.parse(data) as Told;
      if (told.type === 'run.start' || told.type === 'run.end') handlers.current.onRun(told.run);
      if (told.type === 'missed') handlers.current.onMissed();
    };
    const shown = () => {
      if (document.visibilityState !== 'hidden') end ??= followed(address, { onOpen, onEvent });
      else {
        end?.();
        end = undefined;
      }
    };
    shown();
    document.addEventListener('visibilitychange', shown);
    return () => {
      document.removeEventListener('visibilitychange', shown);
      end?.();
    };
  }, [address]);
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
  let before: number | string | null = (endedAt ?? Date.now()) + LATE_MS;
  let rows: Read[] = [];
  for (let pages = 0; before !== null && pages < MOST_PAGES && rows.length < MOST_LINES; pages++) {
    const page: Page = await readPage(app, before);
    rows = [...page.rows.filter((row) => row.runId === runId), ...rows];
    before = (page.rows[0]?.ts ?? 0) < queuedAt ? null : page.earlier;
  }
  return rows.slice(-MOST_LINES).map(entryOf);
}

/** Sorted as the run made them. */
const withNode = (nodes: readonly ShownNode[], node: ShownNode): ShownNode[] =>
  [...nodes.filter(({ ordinal }) => ordinal !== node.ordinal), node].sort((a, b) => a.ordinal - b.ordinal);

const withLine = (lines: readonly Entry[], row: Read): Entry[] => [
  ...lines.slice(1 - MOST_LINES),
  entryOf(row, (lines.at(-1)?.seq ?? 0) + 1),
];

/** What an event changes. */
function changedBy(told: Told, { nodes, lines }: FollowedRun): Partial<FollowedRun> {
  switch (told.type) {
    case 'run.start':
    case 'run.end':
      return { run: told.run };
    case 'node.start':
      return { nodes: withNode(nodes, { ...told, said: '' }) };
    case 'node.delta':
      return {
        nodes: nodes.map((node) => (node.ordinal === told.ordinal ? { ...node, said: node.said + told.delta } : node)),
      };
    case 'node.end': {
      const said = nodes.find(({ ordinal }) => ordinal === told.node.ordinal)?.said ?? '';
      return { nodes: withNode(nodes, { ...told.node, said }) };
    }
    case 'log': {
      const row = Object(told.line) as Partial<Read>;
      return { lines: withLine(lines, { ...row, ts: typeof row.ts === 'number' ? row.ts : Date.now() }) };
    }
    case 'missed':
      return { lines: withLine(lines, { ts: Date.now(), msg: `${told.events} events were left out.` }) };
  }
}

/** Follows one run with its calls and log: first what has happened, then what happens. */
export function useRun(runId: string): FollowedRun {
  const [state, setState] = useState<FollowedRun>(NOTHING);
  useEffect(() => {
    setState(NOTHING);
    const change = (changed: (last: FollowedRun) => Partial<FollowedRun>) =>
      setState((last) => ({ ...last, ...changed(last) }));
    const show = (told: Told) => {
      change((last) => changedBy(told, last));
      if (told.type !== 'run.end') return;
      end();
      if (told.run.automation === CHAT_RUNS) return;
      // Who may not read the log sees what came live.
      loggedBy(told.run).then(
        (all) => change(({ lines }) => (all.length < lines.length ? {} : { lines: all })),
        () => {},
      );
    };
    const refused = (error: GatewayError) => change(() => ({ error }));
    const params = { runId };
    // Events of an ended run have shortened values.
    gateway
      .call('GET /svc/_runs/:runId', { params })
      .then((run) => change((last) => ({ run: last.run?.endedAt ? last.run : run })), refused);
    const end = followed(addressOf('GET /svc/_runs/:runId/events', { params }), {
      // After a lost connection everything is sent again.
      onOpen: () => change(() => ({ nodes: [], lines: [] })),
      onEvent: ({ data }) => show(JSON.parse(data)),
      onRefused: (error) => {
        refused(error);
        if (error.code === 'UNKNOWN_RUN') end();
      },
    });
    return end;
  }, [runId]);
  return state;
}
