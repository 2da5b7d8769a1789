/** What an app's handlers logged: live, by level, text, call and time. */
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Address, go, hrefOf } from '../../address.ts';
import { Button, Empty, Loading, Problem, State } from '../../ui/parts.tsx';
import { clock, plural } from '../../words.ts';
import type { AppViewProps } from '../views.ts';
import { type Entry, MOST, useLog } from './log-entries.ts';
import { LogLines } from './log-lines.tsx';

/** From the least to the worst; what an app calls otherwise counts as `info`. */
const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
/** Scrolled this close to the end, the view follows the log. */
const NEAR_END_PX = 40;

type Filter = { level: string; text: string; call: string; until: number | undefined };

function filterOf({ query }: Address): Filter {
  const until = Number(query.get('until'));
  return {
    level: query.get('level') ?? '',
    text: query.get('text') ?? '',
    call: query.get('call') ?? '',
    until: until > 0 ? until : undefined,
  };
}

export function LogsView({ app, address }: AppViewProps) {
  const filter = filterOf(address);
  const { until } = filter;
  const log = useLog(app.id, until);
  const [pausedAt, setPausedAt] = useState<number>();
  const { entries } = log;
  const show = useCallback(
    (changed: Partial<Filter>) => {
      const next = { ...filterOf(address), ...changed };
      go(hrefOf(['apps', app.id, 'logs'], next), { replace: true });
    },
    [address, app.id],
  );
  const upTo = pausedAt === undefined ? entries : entries.filter(({ seq }) => seq <= pausedAt);
  const shown = useMemo(() => upTo.filter(matches(filter)), [upTo, filter.level, filter.text, filter.call]);
  const waiting = entries.length - upTo.length;
  const pause = () => setPausedAt(pausedAt === undefined ? (entries.at(-1)?.seq ?? -1) : undefined);
  return (
    <section class="card logs" aria-label="Log">
      <div class="log-bar">
        <Filters filter={filter} onChange={show} />
        <span class="log-state">
          {until === undefined ? (
            <State
              state={pausedAt !== undefined ? 'waiting' : log.isLive ? 'live' : 'lost'}
              text={pausedAt !== undefined ? 'paused' : log.isLive ? 'following' : 'connecting'}
            />
          ) : (
            <span class="hint">until {clock(until)}</span>
          )}
          {until === undefined && (
            <Button class="small" aria-pressed={pausedAt !== undefined} onClick={pause}>
              {pausedAt === undefined ? 'Pause' : waiting > 0 ? `Resume (${plural(waiting, 'new entry')})` : 'Resume'}
            </Button>
          )}
        </span>
      </div>
      <Problem error={log.error} />
      {!log.isRead && !log.error && <Loading />}
      {log.isRead && entries.length === 0 && (
        <Empty title={until === undefined ? 'Nothing has been logged yet' : 'Nothing was logged before that time'}>
          <p class="hint">
            Handlers write with <code>log.info('…')</code>, warn and error; what fails is logged by itself.
          </p>
        </Empty>
      )}
      {entries.length > 0 && (
        <Scroll
          key={until}
          {...{ shown, entries }}
          hasEarlier={log.cursor !== null}
          earlier={log.earlier}
          onCall={(call) => show({ call })}
        />
      )}
    </section>
  );
}

function matches({ level, text, call }: Filter): (entry: Entry) => boolean {
  const least = LEVELS.indexOf(level as (typeof LEVELS)[number]);
  const sought = text.toLowerCase();
  return ({ members, text: whole }) => {
    if (call !== '' && members.traceId !== call) return false;
    if (least > 0) {
      const own = members.level === 'fatal' ? 'error' : members.level;
      const rank = LEVELS.indexOf(own as (typeof LEVELS)[number]);
      if ((rank < 0 ? 1 : rank) < least) return false;
    }
    return sought === '' || whole.toLowerCase().includes(sought);
  };
}

function Filters({ filter, onChange }: { filter: Filter; onChange: (changed: Partial<Filter>) => void }) {
  const { level, text, call, until } = filter;
  return (
    <>
      <select
        aria-label="Least level"
        value={level}
        onChange={({ currentTarget }) => onChange({ level: currentTarget.value })}
      >
        <option value="">All levels</option>
        {LEVELS.slice(1).map((one) => (
          <option key={one} value={one}>
            {one === 'error' ? 'error' : `${one} and worse`}
          </option>
        ))}
      </select>
      <input
        type="search"
        aria-label="Text"
        placeholder="Find text"
        value={text}
        onInput={({ currentTarget }) => onChange({ text: currentTarget.value })}
      />
      <input
        type="search"
        class="log-call-field"
        aria-label="Call (trace id)"
        placeholder="Call (trace id)"
        value={call}
        spellcheck={false}
        onInput={({ currentTarget }) => onChange({ call: currentTarget.value.trim() })}
      />
      <label class="line">
        <span class="hint">Until</span>
        <input
          type="datetime-local"
          step="1"
          value={until === undefined ? '' : localOf(until)}
          onChange={({ currentTarget: { value } }) => {
            const at = new Date(value).getTime();
            onChange({ until: value === '' || Number.isNaN(at) ? undefined : at });
          }}
        />
      </label>
    </>
  );
}

/** As the browser's field has it, in the time zone of who looks. */
function localOf(at: number): string {
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

type ScrollProps = {
  entries: readonly Entry[];
  shown: readonly Entry[];
  hasEarlier: boolean;
  earlier: () => Promise<void>;
  onCall: (call: string) => void;
};

/** Follows the end until somebody scrolls up, and stays at what is read when earlier entries come. */
function Scroll({ entries, shown, hasEarlier, earlier, onCall }: ScrollProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const [isReading, setReading] = useState(false);
  const atEnd = useRef(true);
  const before = useRef({ first: entries[0], height: 0, top: 0 });
  useLayoutEffect(() => {
    const { current: box } = scroll;
    if (!box) return;
    const { first, height, top } = before.current;
    if (first !== entries[0] && !atEnd.current) box.scrollTop = top + box.scrollHeight - height;
    else if (atEnd.current) box.scrollTop = box.scrollHeight;
    before.current = { first: entries[0], height: box.scrollHeight, top: box.scrollTop };
  });
  // What is near is drawn a moment later, and may be higher than it was thought to be.
  useEffect(() => {
    const { current: box } = scroll;
    const content = box?.firstElementChild;
    if (!box || !content) return;
    const observer = new ResizeObserver(() => {
      if (atEnd.current) box.scrollTop = box.scrollHeight;
      before.current.height = box.scrollHeight;
    });
    observer.observe(content);
    return () => observer.disconnect();
  }, []);
  const scrolled = () => {
    const { current: box } = scroll;
    if (!box) return;
    atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
    before.current.top = box.scrollTop;
  };
  const readEarlier = async () => {
    setReading(true);
    atEnd.current = false;
    await earlier();
    setReading(false);
  };
  return (
    <div class="log-scroll" ref={scroll} onScroll={scrolled} tabindex={0} role="log" aria-label="Entries">
      <div>
        <p class="log-edge">
          {hasEarlier ? (
            <Button class="small" disabled={isReading} onClick={readEarlier}>
              {isReading ? 'Reading…' : 'Earlier entries'}
            </Button>
          ) : (
            <span class="hint">
              {entries.length < MOST
                ? 'Beginning of the log'
                : 'This view holds no more entries. To see earlier ones, choose a time in “Until”'}
            </span>
          )}
        </p>
        {shown.length > 0 ? (
          <LogLines entries={shown} onCall={onCall} />
        ) : (
          <p class="log-edge hint">None of {plural(entries.length, 'entry')} match.</p>
        )}
      </div>
    </div>
  );
}
