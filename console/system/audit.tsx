/** The audit log: who did what to the gateway, the newest first. */
import { useState } from 'preact/hooks';
import { AUDIT_ACTIONS, actorWords, detailWords } from '../../protocol/audit.ts';
import type { Received } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notifyProblem } from '../ui/notice.tsx';
import { Button, Card, Empty, Loading, Problem } from '../ui/parts.tsx';
import { ago, clock } from '../words.ts';

const PAGE = 50;

type Entries = Received<'GET /svc/_audit'>;

const read = (before?: string, signal?: AbortSignal) =>
  gateway.call('GET /svc/_audit', { query: { limit: PAGE, before } }, { signal });

export function AuditView() {
  const { value: newest, error, reload } = usePolled((signal) => read(undefined, signal), 'audit');
  const [earlier, setEarlier] = useState<Entries>([]);
  const [isAll, setIsAll] = useState(false);
  if (!newest) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const entries = merged(newest, earlier);
  const more = () =>
    read(String(entries.at(-1)?.id)).then((page) => {
      setEarlier(merged(entries, page));
      setIsAll(page.length < PAGE);
    }, notifyProblem);
  if (entries.length === 0)
    return (
      <Empty title="Nothing is recorded yet">
        <p class="hint">Sign-ins, tokens, secrets, publications and removals are recorded here, with who did it.</p>
      </Empty>
    );
  return (
    <>
      <Problem error={error} retry={reload} />
      <Card class="table" title="Audit log">
        <table class="audit stacked">
          <thead>
            <tr>
              <th>When</th>
              <th>Who</th>
              <th>What</th>
              <th>Target</th>
              <th>Detail</th>
            </tr>
          </thead>
          <tbody>
            {entries.map(({ id, at, actor, action, target, detail }) => (
              <tr key={id}>
                <td class="audit-time" title={clock(at)}>
                  {ago(at)}
                </td>
                <td>{actorWords(actor)}</td>
                <td title={AUDIT_ACTIONS[action]}>
                  <code>{action}</code>
                </td>
                <td>{target !== null && <code>{target}</code>}</td>
                <td class="hint">{detailWords(detail)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {!isAll && entries.length >= PAGE && (
          <p class="more">
            <Button class="small" onClick={() => void more()}>
              Earlier entries
            </Button>
          </p>
        )}
      </Card>
    </>
  );
}

/** Each once, the newest first. */
function merged(newer: Entries, older: Entries): Entries {
  const last = newer.at(-1)?.id ?? Number.POSITIVE_INFINITY;
  return [...newer, ...older.filter(({ id }) => id < last)];
}
