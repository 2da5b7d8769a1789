/** Makes a version live, after it showed what that changes and what the data keeps. */
import type { VersionRecord } from '../../../protocol/answer-types.ts';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { keeping, showMinted } from '../../ui/minted.tsx';
import { notify } from '../../ui/notice.tsx';
import { Button, Dialog, Loading, Problem } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import { useWork } from '../../work.ts';
import type { AppDetail } from '../views.ts';
import { FileDiffs } from './changes.tsx';

type ActivateProps = { app: AppDetail; version: VersionRecord; onClose: () => void; onDone: () => void };

export function ActivateDialog({ app, version, onClose, onDone }: ActivateProps) {
  const { versionId } = version;
  const { id } = app;
  const load = () => gateway.call('GET /svc/_apps/:id/versions/:versionId/diff', { params: { id, versionId } });
  const { value: diff, error, reload } = usePolled(load, versionId, 0);
  const { isBusy, error: refusal, run } = useWork();
  const activate = async () => {
    const done = await run(async () => {
      const answer = await keeping(
        gateway.call('POST /svc/_apps/:id/activate', { params: { id }, body: { versionId } }),
      );
      showMinted(id, answer.webhooks);
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
