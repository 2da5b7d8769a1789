/** The versions of an app: what each was, going back to one with what that changes, and deleting one. */
import { useState } from 'preact/hooks';
import type { VersionRecord } from '../../../protocol/answers.ts';
import type { NewWebhook } from '../../../protocol/automations/automation.ts';
import { hrefOf } from '../../address.ts';
import { get, path, post, remove } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { keeping, showMinted } from '../../ui/minted.tsx';
import { notify, notifyProblem } from '../../ui/notice.tsx';
import { Button, Confirm, Dialog, Empty, Loading, Problem, State } from '../../ui/parts.tsx';
import { ago, bytes, clock, plural } from '../../words.ts';
import { useWork } from '../../work.ts';
import type { AppDetail } from '../views.ts';
import { type FileDiff, FileDiffs } from './changes.tsx';

const PAGE = 50;

export function Versions({ app, onChanged }: { app: AppDetail; onChanged: () => void }) {
  const [earlier, setEarlier] = useState<readonly VersionRecord[]>([]);
  const [isWhole, setWhole] = useState(false);
  const [asked, ask] = useState<{ what: 'activate' | 'delete'; version: VersionRecord } | null>(null);
  const list = path`/svc/_apps/${app.id}/versions`;
  const { value: latest, error, reload } = usePolled(() => get<VersionRecord[]>(`${list}?limit=${PAGE}`), list);
  if (!latest) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  if (latest.length === 0) {
    return (
      <Empty title="No versions yet">
        <p>
          Each upload and each publication makes one: <code>svc push {app.id}</code>
        </p>
      </Empty>
    );
  }
  const known = new Set(latest.map(({ versionId }) => versionId));
  const versions = [...latest, ...earlier.filter(({ versionId }) => !known.has(versionId))];
  const hasMore = !isWhole && latest.length === PAGE;
  const readMore = () =>
    get<VersionRecord[]>(`${list}?limit=${PAGE}&before=${encodeURIComponent(versions.at(-1)!.versionId)}`).then(
      (rows) => {
        setEarlier([...earlier, ...rows]);
        setWhole(rows.length < PAGE);
      },
      notifyProblem,
    );
  const done = () => {
    reload();
    setEarlier([]);
    setWhole(false);
    onChanged();
  };
  return (
    <div class="code-scroll">
      <div class="card table">
        <table>
          <thead>
            <tr>
              <th>Version</th>
              <th class="wide">Manifest</th>
              <th>Published</th>
              <th class="number wide">Files</th>
              <th class="number wide">Size</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {versions.map((version) => (
              <tr key={version.versionId}>
                <td>
                  <a
                    href={hrefOf(['apps', app.id, 'code'], { version: version.active ? undefined : version.versionId })}
                  >
                    {version.versionId}
                  </a>{' '}
                  {version.active && <State state="live" />}
                </td>
                <td class="wide">{version.version || '–'}</td>
                <td title={clock(version.uploadedAt)}>{ago(version.uploadedAt)}</td>
                <td class="number wide">{version.files || '–'}</td>
                <td class="number wide">{version.bytes ? bytes(version.bytes) : '–'}</td>
                <td>
                  {!version.active && (
                    <div class="line">
                      <Button
                        class="small"
                        aria-label={`Make live: ${version.versionId}`}
                        onClick={() => ask({ what: 'activate', version })}
                      >
                        Make live
                      </Button>
                      <Button
                        class="small"
                        aria-label={`Delete ${version.versionId}`}
                        onClick={() => ask({ what: 'delete', version })}
                      >
                        Delete
                      </Button>
                    </div>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hasMore && (
        <p class="line">
          <Button class="small" onClick={() => void readMore()}>
            Earlier versions
          </Button>
        </p>
      )}
      {asked?.what === 'activate' && (
        <ActivateDialog app={app} version={asked.version} onClose={() => ask(null)} onDone={done} />
      )}
      {asked?.what === 'delete' && (
        <Confirm
          title={`Delete ${asked.version.versionId}?`}
          verb="Delete"
          onClose={() => ask(null)}
          onDone={async () => {
            await remove(`${list}/${encodeURIComponent(asked.version.versionId)}`);
            notify(`${asked.version.versionId} is deleted.`);
            done();
          }}
        >
          <p>The app cannot go back to it afterwards. What is live and the data stay as they are.</p>
        </Confirm>
      )}
    </div>
  );
}

type ActivateProps = { app: AppDetail; version: VersionRecord; onClose: () => void; onDone: () => void };

function ActivateDialog({ app, version, onClose, onDone }: ActivateProps) {
  const { versionId } = version;
  const address = path`/svc/_apps/${app.id}/versions/${versionId}/diff`;
  const load = () => get<{ from: string | null; files: FileDiff[] }>(address);
  const { value: diff, error, reload } = usePolled(load, address, 0);
  const { isBusy, error: refusal, run } = useWork();
  const activate = async () => {
    const done = await run(async () => {
      const answer = await keeping(
        post<{ webhooks: NewWebhook[] }>(path`/svc/_apps/${app.id}/activate`, { versionId }),
      );
      showMinted(app.id, answer.webhooks);
    });
    if (!done) return;
    notify(`${versionId} is live`);
    onDone();
    onClose();
  };
  const ahead = (diff?.files ?? []).filter((file) => file.status === 'deleted' && file.path.startsWith('migrations/'));
  const fresh = (diff?.files ?? []).filter((file) => file.status === 'added' && file.path.startsWith('migrations/'));
  return (
    <Dialog title={`Make ${versionId} live`} wide onClose={onClose}>
      <div class="stack">
        {!diff && (error ? <Problem error={error} retry={reload} /> : <Loading />)}
        {diff && (
          <>
            <p>
              {diff.files.length === 0
                ? 'Its files are those that are live.'
                : `${plural(diff.files.length, 'file')} will be as in that version.`}{' '}
              The data stays as it is.
            </p>
            {ahead.length > 0 && (
              <p class="problem">
                The data keeps what {ahead.map((file) => file.path).join(', ')} did to it, which this version does not
                know. Try it before people use it.
              </p>
            )}
            {fresh.length > 0 && <p>The data is migrated by {fresh.map((file) => file.path).join(', ')}.</p>}
            <FileDiffs files={diff.files} />
          </>
        )}
        <Problem error={refusal} />
        <div class="line end sticky-end">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={isBusy || !diff} onClick={() => void activate()}>
            Make live
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
