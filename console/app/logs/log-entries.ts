/** The log of an app as the browser has it: what was before, what comes live, and earlier entries that were asked for. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { addressOf, requestOf } from '../../../protocol/http/client.ts';
import type { RowIn } from '../../../protocol/routes/api.ts';
import { followed, type GatewayError, gateway, SIGNED_IN } from '../../gateway.ts';

/** `seq` grows by one from entry to entry; earlier ones, read later, have smaller ones. */
export type Entry = { seq: number; ts: number; text: string; members: Readonly<Record<string, unknown>> };

export type Read = RowIn<'GET /svc/_logs'>;
/** `earlier` is the cursor of the page before, null when there is none. */
export type Page = { rows: Read[]; earlier: string | null };

const PAGE = 500;
/** More are not kept in the page; the file has them. */
export const MOST = 20_000;
/** Many lines in a moment are drawn together. */
const DRAW_MS = 50;

type LogState = {
  entries: readonly Entry[];
  /** Whether it was read at all. */
  isRead: boolean;
  /** The cursor of the entries before the first; null when there are none, or no more are kept. */
  cursor: string | null;
  isLive: boolean;
  error: GatewayError | undefined;
};

const NONE: LogState = { entries: [], isRead: false, cursor: null, isLive: false, error: undefined };

/** Reads and follows the log of an app; with `until`, milliseconds, only what was before. */
export function useLog(app: string, until: number | undefined): LogState & { earlier: () => Promise<void> } {
  const [state, setState] = useState<LogState>(NONE);
  const current = useRef(state);
  const change = useCallback((more: Partial<LogState>) => {
    current.current = { ...current.current, ...more };
    setState(current.current);
  }, []);

  useEffect(() => {
    current.current = NONE;
    setState(NONE);
    const abort = new AbortController();
    let drawing: ReturnType<typeof setTimeout> | undefined;
    let arrived: Read[] = [];

    const draw = () => {
      drawing = undefined;
      if (!current.current.isRead || arrived.length === 0) return;
      const added = unknownOf(current.current.entries, arrived);
      arrived = [];
      change(appended(current.current, added));
    };
    /** After the stream is open, so that nothing falls between the two. */
    const read = async () => {
      try {
        const { rows, earlier } = await readPage(app, until, abort.signal);
        const { isRead } = current.current;
        const missed = isRead ? await readBack(rows, earlier) : rows;
        change({
          ...appended(current.current, unknownOf(current.current.entries, missed)),
          isRead: true,
          error: undefined,
        });
        if (!isRead) change({ cursor: earlier });
        draw();
      } catch (error) {
        if (!abort.signal.aborted) change({ error: error as GatewayError });
      }
    };
    /** `rows` and what was logged before them while the stream was away, which may be pages. */
    const readBack = async (rows: Read[], earlier: string | null): Promise<Read[]> => {
      let missed = rows;
      let cursor = earlier;
      while (
        cursor !== null &&
        missed.length < MOST &&
        unknownOf(current.current.entries, missed).length === missed.length
      ) {
        const page = await readPage(app, cursor, abort.signal);
        missed = [...page.rows, ...missed];
        cursor = page.earlier;
      }
      return missed;
    };
    const follow = (): (() => void) =>
      followed(addressOf('GET /svc/_logs', { query: { app, follow: '1' } }), {
        onOpen: () => {
          change({ isLive: true });
          void read();
        },
        onLost: () => {
          change({ isLive: false });
          // There may be too many streams: what was before can be read all the same.
          if (!current.current.isRead) void read();
        },
        onRefused: (error) => change({ isLive: false, ...(!current.current.isRead && { error }) }),
        onEvent: ({ event, data }) => {
          if (event !== 'log') return;
          arrived.push(JSON.parse(data));
          drawing ??= setTimeout(draw, DRAW_MS);
        },
      });
    const end = until === undefined ? follow() : undefined;
    if (end === undefined) {
      void read();
      addEventListener(SIGNED_IN, read);
    }
    return () => {
      end?.();
      abort.abort();
      clearTimeout(drawing);
      removeEventListener(SIGNED_IN, read);
    };
  }, [app, until, change]);

  const earlier = useCallback(async () => {
    const { cursor } = current.current;
    if (cursor === null) return;
    try {
      const page = await readPage(app, cursor);
      const { entries } = current.current;
      if (current.current.cursor !== cursor) return;
      const from = (entries[0]?.seq ?? 0) - page.rows.length;
      const all = [...page.rows.map((row, index) => entryOf(row, from + index)), ...entries];
      change({ entries: all, cursor: all.length < MOST ? page.earlier : null, error: undefined });
    } catch (error) {
      change({ error: error as GatewayError });
    }
  }, [app, change]);

  return { ...state, earlier };
}

/** The last entries, or those before a time or a cursor. */
export async function readPage(app: string, before?: number | string, signal?: AbortSignal): Promise<Page> {
  const query = { app, limit: PAGE, before: before?.toString() };
  const response = await gateway.open(requestOf('GET /svc/_logs', { query }, { signal }));
  return { rows: await response.json(), earlier: response.headers.get('log-cursor') };
}

/** Those of `rows` that are not among `entries`; two that are equal are two. */
function unknownOf(entries: readonly Entry[], rows: readonly Read[]): Read[] {
  const [first] = rows;
  if (first === undefined) return [];
  const from = rows.reduce((least, { ts }) => Math.min(least, ts), first.ts);
  const known = new Map<string, number>();
  for (const { ts, text } of entries) if (ts >= from) known.set(text, (known.get(text) ?? 0) + 1);
  return rows.filter((row) => {
    const text = JSON.stringify(row);
    const count = known.get(text) ?? 0;
    if (count > 0) known.set(text, count - 1);
    return count === 0;
  });
}

/** With `rows` behind the others. The cursor is that of the first entry: it goes with it. */
function appended({ entries, cursor }: LogState, rows: readonly Read[]): Pick<LogState, 'entries' | 'cursor'> {
  if (rows.length === 0) return { entries, cursor };
  const from = (entries.at(-1)?.seq ?? -1) + 1;
  const all = [...entries, ...rows.map((row, index) => entryOf(row, from + index))];
  return { entries: all.slice(-MOST), cursor: all.length > MOST ? null : cursor };
}

export function entryOf(row: Read, seq: number): Entry {
  return { seq, ts: row.ts, text: JSON.stringify(row), members: row };
}
