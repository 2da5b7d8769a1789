/** Publishes a draft: says before what it brings, and what to do when others published meanwhile. */
import { useEffect, useState } from 'preact/hooks';
import { GatewayError, gateway } from '../../gateway.ts';
import { keeping, showMinted } from '../../ui/minted.tsx';
import { notify } from '../../ui/notice.tsx';
import { Button, Dialog, Field, Loading, Problem } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import { useWork } from '../../work.ts';
import { save, unsavedOf } from './buffers.ts';
import { Brought, broughtBy, type DraftDiff } from './changes.tsx';
import { checkDraft, findingsOf, publish, readDiff } from './code-workspace.ts';
import type { Finding } from './editor.tsx';

type PublishProps = {
  app: string;
  workspace: string;
  onClose: () => void;
  onPublished: () => void;
  /** Called with what the gates found. */
  onRefused: (findings: readonly Finding[]) => void;
  /** Shows the place of what was found. */
  onOpen: (finding: Finding) => void;
};

/** Texts that are not saved are saved first: what the editor shows is what is published. */
export function PublishDialog({ app, workspace, onClose, onPublished, onRefused, onOpen }: PublishProps) {
  const [diff, setDiff] = useState<DraftDiff>();
  /** What the check found; undefined until it is done. */
  const [found, setFound] = useState<readonly Finding[]>();
  const [message, setMessage] = useState('');
  const [conflicts, setConflicts] = useState<readonly string[] | null>(null);
  const { isBusy, error, run, clear } = useWork();
  const read = () =>
    run(async () => {
      const source = { app, workspace, version: null };
      for (const file of unsavedOf(source)) await save(source, file);
      await look();
    });
  const look = async () => {
    const checking = checkDraft(app, workspace).then(setFound);
    setDiff(await readDiff(app, workspace));
    await checking;
  };
  useEffect(() => void read(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    await run(async () => {
      const body = { app, ...(message.trim() !== '' && { message: message.trim() }) };
      const published = await keeping(publish(workspace, body));
      showMinted(app, published.webhooks);
      const { length } = published.migrationsApplied;
      notify(`${published.tag} is live${length > 0 ? `, after ${plural(length, 'migration')}` : ''}`);
      onPublished();
      onClose();
    });
  };
  /** Merges what was published in the meantime into the draft. */
  const update = () =>
    run(async () => {
      const params = { sid: workspace, id: app };
      const taken = await gateway.call('POST /svc/_sessions/:sid/apps/:id/update', { params });
      clear();
      setConflicts(taken.conflicts);
      await look();
    });
  const isConflict = error instanceof GatewayError && error.code === 'MERGE_CONFLICT';
  const refused = error && !isConflict && diff ? findingsOf(error) : [];
  useEffect(() => {
    if (refused.length > 0) onRefused(refused);
  }, [error]);
  const isStopped = found?.some(({ isWarning }) => !isWarning) === true;
  const more = refused.filter(({ file, message: text }) => file !== '' && !found?.some((one) => one.message === text));
  const findings = [...(found ?? []), ...more];
  const isBehind = diff?.behind.includes(app) === true;
  return (
    <Dialog title="Publish this draft" onClose={onClose}>
      {!diff && !error && <Loading />}
      {diff && (
        <form class="stack" onSubmit={(event) => void submit(event)}>
          <p>
            {diff.files.length === 0 ? 'Nothing is changed.' : `${plural(diff.files.length, 'file')} will be live: `}
            {diff.files.slice(0, 8).map(({ path: file }, at) => (
              <span key={file}>
                {at > 0 && ', '}
                <code>{file}</code>
              </span>
            ))}
            {diff.files.length > 8 && ' …'}
          </p>
          <Brought texts={broughtBy(diff)} />
          {conflicts !== null && <Taken conflicts={conflicts} />}
          <Field label="Message" hint="What changed, for the list of versions. May be left empty.">
            <input value={message} maxLength={2000} onInput={({ currentTarget }) => setMessage(currentTarget.value)} />
          </Field>
          <Problem error={error} />
          {found === undefined && !error && <p class="hint">The draft is being checked…</p>}
          {findings.length > 0 && (
            <>
              {isStopped || more.length > 0 ? (
                <p class="problem" role="alert">
                  It cannot be published like this:
                </p>
              ) : (
                <p role="status">This may be a mistake:</p>
              )}
              <FindingList
                findings={findings}
                onOpen={(finding) => {
                  onClose();
                  onOpen(finding);
                }}
              />
            </>
          )}
          <div class="line end">
            {(isConflict || isBehind) && (
              <Button disabled={isBusy} onClick={() => void update()}>
                Merge what was published
              </Button>
            )}
            <Button
              type="submit"
              kind="primary"
              disabled={isBusy || diff.files.length === 0 || found === undefined || isStopped}
            >
              Publish
            </Button>
          </div>
        </form>
      )}
      {!diff && <Problem error={error} retry={() => void read()} />}
    </Dialog>
  );
}

function Taken({ conflicts }: { conflicts: readonly string[] }) {
  if (conflicts.length === 0) return <p role="status">The draft now has what was published in the meantime.</p>;
  return (
    <p role="status">
      The draft now has what was published in the meantime. Choose between both sides, which stand between marks, in{' '}
      {conflicts.map((file, at) => (
        <span key={file}>
          {at > 0 && ', '}
          <code>{file}</code>
        </span>
      ))}
      .
    </p>
  );
}

/** What the gates found; `hrefTo` a finding leads to its line. */
export function FindingList({
  findings,
  onOpen,
}: {
  findings: readonly Finding[];
  onOpen?: (finding: Finding) => void;
}) {
  return (
    <ul class="findings" aria-label="What is wrong">
      {findings.map((finding, at) => {
        const { file, line, column, message, isWarning } = finding;
        const place = `${file}${line === undefined ? '' : `:${line}${column === undefined ? '' : `:${column}`}`}`;
        return (
          <li key={`${at} ${place}`} data-tone={isWarning && 'warn'}>
            {file !== '' &&
              (onOpen ? (
                <Button kind="link" onClick={() => onOpen(finding)}>
                  {place}
                </Button>
              ) : (
                <code>{place}</code>
              ))}{' '}
            {message}
          </li>
        );
      })}
    </ul>
  );
}
