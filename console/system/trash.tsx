/** The trash: removed apps that are still kept, restored or deleted for good. */
import { useState } from 'preact/hooks';
import type { TrashRow } from '../../protocol/answer-types.ts';
import { hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Confirm, Empty, Loading, Problem } from '../ui/parts.tsx';
import { ago, ahead, bytes, clock, plural } from '../words.ts';

/** Newest first. */
const readTrash = (signal: AbortSignal): Promise<TrashRow[]> =>
  gateway.all('GET /svc/_trash', {}, ({ id }) => ({ before: id }), { signal });

export function Trash() {
  const { value: rows, error, reload } = usePolled(readTrash, 'trash', 0);
  const { reload: reloadGateway } = useGateway();
  const [restoring, setRestoring] = useState<TrashRow>();
  const [deleting, setDeleting] = useState<readonly TrashRow[]>();
  const restore = async ({ id, app, name }: TrashRow) => {
    await gateway.call('POST /svc/_trash/:id/restore', { params: { id } });
    notify(`${name} (${app}) is restored.`);
    reload();
    reloadGateway();
  };
  const removeAll = async (going: readonly TrashRow[]) => {
    try {
      for (const { id } of going) await gateway.call('DELETE /svc/_trash/:id', { params: { id } });
      notify(`${plural(going.length, 'removed app')} deleted for good.`);
    } finally {
      reload();
    }
  };
  if (!rows) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  if (rows.length === 0)
    return (
      <Empty title="The trash is empty">
        <p class="hint">
          An app that is removed in its Settings, or by <code>svc rm</code>, is kept here for some days (
          <code>trashDays</code>).
        </p>
      </Empty>
    );
  return (
    <>
      <Problem error={error} retry={reload} />
      <Card
        class="table"
        title="Removed apps"
        aside={
          <span class="line">
            <span class="hint" role="status">
              {plural(rows.length, 'app')}, {bytes(sizeOf(rows))}
            </span>
            <Button kind="danger" class="small" onClick={() => setDeleting(rows)}>
              Empty the trash…
            </Button>
          </span>
        }
      >
        <table class="trash stacked">
          <thead>
            <tr>
              <th>App</th>
              <th>Removed</th>
              <th class="number">Size</th>
              <th class="wide">Expires</th>
              <th>
                <span class="unseen">What to do</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.id}>
                <td>
                  <b>{row.name}</b>{' '}
                  <span class="hint">
                    <code>{row.app}</code> {row.version && `v${row.version}`}
                  </span>
                </td>
                <td title={clock(row.removedAt)}>{ago(row.removedAt)}</td>
                <td class="number">{bytes(row.bytes)}</td>
                <td class="wide hint" title={clock(row.keptUntil)}>
                  {ahead(row.keptUntil)}
                </td>
                <td>
                  <span class="row-acts">
                    <Button class="small" aria-label={`Restore ${row.id}`} onClick={() => setRestoring(row)}>
                      Restore
                    </Button>
                    <Button class="small" aria-label={`Delete ${row.id}`} onClick={() => setDeleting([row])}>
                      Delete
                    </Button>
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
      {restoring && (
        <Confirm
          title={`Restore ${restoring.name}?`}
          verb="Restore app"
          isHarmless
          onDone={() => restore(restoring)}
          onClose={() => setRestoring(undefined)}
        >
          <ul class="consequences">
            <li>
              <code>{restoring.app}</code> is live again, with its code, data, files, settings and secrets, and its
              automations fire again.
            </li>
            <li>Its tokens, the history of its runs and its conversations were not kept.</li>
          </ul>
        </Confirm>
      )}
      {deleting && (
        <Confirm
          title={
            deleting.length === 1 ? `Delete ${deleting[0]?.name} for good?` : `Delete ${deleting.length} apps for good?`
          }
          verb="Delete for good"
          onDone={() => removeAll(deleting)}
          onClose={() => setDeleting(undefined)}
        >
          <p>
            {bytes(sizeOf(deleting))} of code, data and files are deleted at once. Nothing brings them back but a{' '}
            <a href={hrefOf(['system', 'backups'])}>backup</a> from before the removal.
          </p>
        </Confirm>
      )}
    </>
  );
}

const sizeOf = (rows: readonly TrashRow[]): number => rows.reduce((sum, row) => sum + row.bytes, 0);
