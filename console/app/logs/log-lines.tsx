/** Draws log entries; only those near what is seen are in the page. */
import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { runHref } from '../../runs/run-words.ts';
import { Located } from '../../ui/located.tsx';
import type { Entry } from './log-entries.ts';

const CHUNK = 50;
const LINE_PX = 26;
/** Drawn beyond the edges of what is seen. */
const MARGIN = '1200px 0px';

/** `onCall` is given the trace id of an entry. */
export function LogLines({ entries, onCall }: { entries: readonly Entry[]; onCall: (id: string) => void }) {
  const drawn = useRef(new Map<number, Drawn>());
  const called = useRef(onCall);
  called.current = onCall;
  const last = drawn.current;
  drawn.current = new Map(
    chunksOf(entries).map(([key, chunk]): [number, Drawn] => {
      const before = last.get(key);
      if (before && isSame(before.chunk, chunk)) return [key, before];
      return [key, { chunk, node: <Chunk key={key} chunk={chunk} onCall={(id) => called.current(id)} /> }];
    }),
  );
  return <ol class="log-lines">{[...drawn.current.values()].map(({ node }) => node)}</ol>;
}

/** By the place of the entries in the log, so that a chunk stays what it is when others come before or after it. */
function chunksOf(entries: readonly Entry[]): [key: number, chunk: Entry[]][] {
  const chunks = new Map<number, Entry[]>();
  for (const entry of entries) {
    const key = Math.floor(entry.seq / CHUNK);
    const chunk = chunks.get(key);
    if (chunk) chunk.push(entry);
    else chunks.set(key, [entry]);
  }
  return [...chunks];
}

/** A chunk that has not changed is the same node, which is not compared again. */
type Drawn = { chunk: readonly Entry[]; node: VNode };

const isSame = (a: readonly Entry[], b: readonly Entry[]) =>
  a.length === b.length && a.every((entry, index) => entry === b[index]);

function Chunk({ chunk, onCall }: { chunk: readonly Entry[]; onCall: (id: string) => void }) {
  const place = useRef<HTMLLIElement>(null);
  const height = useRef(0);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(([seen]) => seen && setNear(seen.isIntersecting), {
      root: place.current?.closest('.log-scroll') ?? null,
      rootMargin: MARGIN,
    });
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (isNear) height.current = place.current?.offsetHeight ?? 0;
  });
  const away = { height: `${height.current || chunk.length * LINE_PX}px` };
  return (
    <li ref={place} style={isNear ? undefined : away}>
      {isNear && (
        <ol>
          {chunk.map((entry) => (
            <LogLine key={entry.seq} entry={entry} onCall={onCall} />
          ))}
        </ol>
      )}
    </li>
  );
}

const DRAWN = new Set(['ts', 'level', 'app', 'msg', 'tool', 'versionId', 'traceId', 'runId', 'stack', 'err']);

/** Without `onCall` it does not lead to the entries of its call. */
export function LogLine({ entry: { ts, members }, onCall }: { entry: Entry; onCall?: (id: string) => void }) {
  const { level = 'info', app, versionId, tool, msg = '', traceId, runId } = members;
  const owner = { app: String(app), version: typeof versionId === 'string' ? versionId : undefined };
  const stack = stackOf(members);
  const more = Object.entries(members)
    .filter(([name]) => !DRAWN.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return (
    <li class="log-line" data-level={String(level)}>
      <time dateTime={new Date(ts).toISOString()} title={new Date(ts).toLocaleString()}>
        {timeOf(ts)}
      </time>
      <span class="log-level">{String(level)}</span>
      <div class="log-text">
        {typeof tool === 'string' && <b>{tool} </b>}
        <Located text={String(msg)} {...owner} />
        {more.length > 0 && (
          <span class="hint">
            {' '}
            <Located text={more.join(' ')} {...owner} />
          </span>
        )}
        {typeof runId === 'string' && (
          <>
            {' '}
            <a class="log-run" href={runHref(runId)}>
              run …{runId.slice(-6)}
            </a>
          </>
        )}
        {stack && (
          <pre>
            <Located text={stack} {...owner} />
          </pre>
        )}
      </div>
      {onCall && typeof traceId === 'string' && (
        <button type="button" class="log-call" title={`Only this call: ${traceId}`} onClick={() => onCall(traceId)}>
          {traceId.slice(-6)}
        </button>
      )}
    </li>
  );
}

/** The stack of an entry or of its error. */
export function stackOf({ err, stack }: Readonly<Record<string, unknown>>): string | undefined {
  const own = typeof err === 'object' && err !== null ? (err as { stack?: unknown }).stack : undefined;
  const text = typeof own === 'string' ? own : stack;
  return typeof text === 'string' ? text : undefined;
}

/** The day too, where it is not today. */
function timeOf(ts: number): string {
  const at = new Date(ts);
  const time = `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? time : `${at.toLocaleDateString(undefined, { month: 'short', day: 'numeric' })} ${time}`;
}
