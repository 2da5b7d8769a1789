/** One version: what was said of it, and what it changes against the one before or the live one. */
import { useState } from 'preact/hooks';
import type { VersionRecord } from '../../../protocol/answer-types.ts';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { Choice, Pressed } from '../../ui/page-frame.tsx';
import { Button, Dialog, Loading, Problem } from '../../ui/parts.tsx';
import { clock, plural } from '../../words.ts';
import type { AppDetail } from '../views.ts';
import { FileDiffs } from './changes.tsx';

type VersionProps = { app: AppDetail; version: VersionRecord; onClose: () => void; onActivate: () => void };

export function VersionDialog({ app, version, onClose, onActivate }: VersionProps) {
  const { versionId, active, message, by, uploadedAt } = version;
  const [against, setAgainst] = useState<'before' | 'live'>('before');
  const load = async (signal: AbortSignal) => {
    const { id } = app;
    const query = { limit: 1, before: versionId };
    const [before] = await gateway.call('GET /svc/_apps/:id/versions', { params: { id }, query }, { signal });
    const from = against === 'live' ? app.activeVersion : (before?.versionId ?? null);
    if (from === null) return { from, files: [] };
    const sent = { params: { id, versionId }, query: { from } };
    return await gateway.call('GET /svc/_apps/:id/versions/:versionId/diff', sent, { signal });
  };
  const { value: diff, error, reload } = usePolled(load, `${app.id} ${versionId} ${against}`, 0);
  return (
    <Dialog title={versionId} wide onClose={onClose}>
      <div class="stack">
        {message && <p class="version-message">{message}</p>}
        <p class="hint">
          Published {clock(uploadedAt)}
          {by && ` by ${by}`}
        </p>
        {!active && app.activeVersion !== null && (
          <Choice label="What it is compared with" class="compared">
            <Pressed isPressed={against === 'before'} onPress={() => setAgainst('before')}>
              Since the one before
            </Pressed>
            <Pressed isPressed={against === 'live'} onPress={() => setAgainst('live')}>
              Since the live one
            </Pressed>
          </Choice>
        )}
        {!diff && (error ? <Problem error={error} retry={reload} /> : <Loading />)}
        {diff && (
          <>
            <p role="status">
              {diff.from === null
                ? 'This is the first version.'
                : diff.files.length === 0
                  ? `Its files are those of ${diff.from}.`
                  : `${plural(diff.files.length, 'file')} changed since ${diff.from}.`}
            </p>
            <FileDiffs files={diff.files} />
          </>
        )}
        {!active && (
          <div class="line end sticky-end">
            <Button kind="primary" onClick={onActivate}>
              Make live
            </Button>
          </div>
        )}
      </div>
    </Dialog>
  );
}
