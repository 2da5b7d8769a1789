/** The versions of an app: what each was, going back to one with what that changes, and deleting one. */
import { useState } from 'preact/hooks';
import type { VersionRecord } from '../../../protocol/answer-types.ts';
import { hrefOf } from '../../address.ts';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { notify, notifyProblem } from '../../ui/notice.tsx';
import { Button, Confirm, Empty, Loading, Problem, State } from '../../ui/parts.tsx';
import { ago, bytes, clock } from '../../words.ts';
import type { AppDetail } from '../views.ts';
import { ActivateDialog } from './activate.tsx';
import { VersionDialog } from './version.tsx';

const PAGE = 50;

export function Versions({ app, onChanged }: { app: AppDetail; onChanged: () => void }) {
  const [earlier, setEarlier] = useState<readonly VersionRecord[]>([]);
  const [isWhole, setWhole] = useState(false);
  const [asked, ask] = useState<{ what: 'look' | 'activate' | 'delete'; version: VersionRecord } | null>(null);
  const params = { id: app.id };
  const read = (before?: string) =>
    gateway.call('GET /svc/_apps/:id/versions', { params, query: { limit: PAGE, before } });
  const { value: latest, error, reload } = usePolled(() => read(), `versions of ${app.id}`);
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
    read(versions.at(-1)!.versionId).then((rows) => {
      setEarlier([...earlier, ...rows]);
      setWhole(rows.length < PAGE);
    }, notifyProblem);
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
                  {version.message && <p class="version-message">{version.message}</p>}
                </td>
                <td class="wide">{version.version || '–'}</td>
                <td title={clock(version.uploadedAt)}>
                  {ago(version.uploadedAt)}
                  {version.by && <span class="hint version-by">by {version.by}</span>}
                </td>
                <td class="number wide">{version.files || '–'}</td>
                <td class="number wide">{version.bytes ? bytes(version.bytes) : '–'}</td>
                <td>
                  <div class="line version-acts">
                    <Button
                      class="small"
                      aria-label={`Changes in ${version.versionId}`}
                      onClick={() => ask({ what: 'look', version })}
                    >
                      Changes
                    </Button>
                    {!version.active && (
                      <>
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
                      </>
                    )}
                  </div>
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
      {asked?.what === 'look' && (
        <VersionDialog
          key={asked.version.versionId}
          app={app}
          version={asked.version}
          onClose={() => ask(null)}
          onActivate={() => ask({ what: 'activate', version: asked.version })}
        />
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
            const { versionId } = asked.version;
            await gateway.call('DELETE /svc/_apps/:id/versions/:versionId', { params: { ...params, versionId } });
            notify(`${versionId} is deleted.`);
            done();
          }}
        >
          <p>The app cannot go back to it afterwards. What is live and the data stay as they are.</p>
        </Confirm>
      )}
    </div>
  );
}
