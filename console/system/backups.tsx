/** Backups: the schedule and how the last ones went, those that are kept, one made now, and how to restore one. */
import { useEffect, useState } from 'preact/hooks';
import type { BackupFile, BackupStatus } from '../../protocol/routes/operations/backups-rows.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { scheduleWords } from '../schedule-words.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, CopyButton, Dialog, Facts, Field, Loading, Problem, State } from '../ui/parts.tsx';
import { ago, ahead, bytes, clock, plural, took } from '../words.ts';
import { useWork } from '../work.ts';

const READ_MS = 3000;
/** As `svc backup --schedule` without other options. */
const NIGHTLY = { cron: '0 3 * * *', keep: 7 };

type Read = { status: BackupStatus; files: BackupFile[] };

const read = async (signal: AbortSignal): Promise<Read> => {
  const [status, files] = await Promise.all([
    gateway.call('GET /svc/_backups', {}, { signal }),
    gateway.call('GET /svc/_backups/files', {}, { signal }),
  ]);
  return { status, files };
};

export function Backups() {
  const { value, error, reload } = usePolled(read, 'backups', READ_MS);
  const [isSetting, setSetting] = useState(false);
  const work = useWork();
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const { status, files } = value;
  const make = () =>
    work.run(async () => {
      await gateway.call('POST /svc/_backups/files');
      reload();
    });
  return (
    <>
      <Card
        title="Backups"
        aside={
          <Button kind="primary" disabled={work.isBusy || status.running} onClick={make}>
            {status.running ? 'Making a backup…' : 'Back up now'}
          </Button>
        }
      >
        <Problem error={error ?? work.error} />
        <LastOne status={status} />
        <Facts facts={factsOf(status)} />
        {status.schedule?.setBy === 'configuration' ? (
          <p class="hint">
            The schedule is in the configuration file (<code>backups</code>): change it there, and start the gateway
            again.
          </p>
        ) : (
          <Button class="small" onClick={() => setSetting(true)}>
            {status.schedule ? 'Change the schedule…' : 'Make backups on schedule…'}
          </Button>
        )}
      </Card>
      <Files files={files} />
      <HowToRestore file={files.find(({ damaged }) => !damaged)} />
      {isSetting && <Schedule status={status} onDone={reload} onClose={() => setSetting(false)} />}
    </>
  );
}

function LastOne({ status: { running, lastSuccess, lastFailure } }: { status: BackupStatus }) {
  const hasFailed = lastFailure !== null && lastFailure.at >= (lastSuccess?.at ?? 0);
  return (
    <div role="status">
      {running && <State state="running" text="A backup is being made; calls go on meanwhile" />}
      {!running && !hasFailed && lastSuccess && (
        <State state="ok" text={`Made and verified ${ago(lastSuccess.at)}, in ${took(lastSuccess.ms)}`} />
      )}
      {!running && !hasFailed && !lastSuccess && <State state="waiting" text="No backup was made yet" />}
      {!running && hasFailed && (
        <>
          <State state="failed" text={`The last one failed ${ago(lastFailure.at)}`} />
          <p class="problem">{lastFailure.message}</p>
          {lastSuccess && <p class="hint">The last good one was made {ago(lastSuccess.at)}.</p>}
        </>
      )}
    </div>
  );
}

function factsOf({ schedule, nextAt }: BackupStatus): [string, string][] {
  if (schedule === null) return [['Schedule', 'none']];
  return [
    ['Schedule', scheduleWords(schedule.cron) ?? schedule.cron],
    ...(nextAt === null ? [] : [['Next', `${ahead(nextAt)}, ${clock(nextAt)}`] as [string, string]]),
    ['Keeps', `the newest ${schedule.keep}`],
    ['Folder', schedule.dir],
  ];
}

function Files({ files }: { files: readonly BackupFile[] }) {
  if (files.length === 0) return null;
  return (
    <Card class="table" title="Kept backups" aside={<span class="hint">{plural(files.length, 'file')}</span>}>
      <table class="stacked">
        <thead>
          <tr>
            <th>File</th>
            <th class="wide">Made</th>
            <th class="number">Size</th>
            <th>Verified</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <FileRow key={file.file} file={file} />
          ))}
        </tbody>
      </table>
    </Card>
  );
}

/** Each was verified before it got its name; a disk may have changed it since. */
function FileRow({ file: { name, file, bytes: size, madeAt, damaged } }: { file: BackupFile }) {
  const { isBusy, error, run } = useWork();
  const [verifiedAt, setVerifiedAt] = useState(madeAt);
  const verify = () =>
    run(async () => {
      await gateway.call('POST /svc/_backups/files/:name/verify', { params: { name } });
      setVerifiedAt(Date.now());
    });
  return (
    <tr>
      <td class="backup-name" title={file}>
        {name}
      </td>
      <td class="wide hint" title={clock(madeAt)}>
        {ago(madeAt)}
      </td>
      <td class="number">{bytes(size)}</td>
      <td>
        <span class="line">
          {error ? (
            <State state="failed" text="changed or cut off" />
          ) : damaged ? (
            <State state="failed" text="has a damaged database" />
          ) : (
            <State state="ok" text={ago(verifiedAt)} />
          )}
          <Button class="small" disabled={isBusy} aria-label={`Verify ${name}`} onClick={verify}>
            {isBusy ? 'Reading it…' : 'Verify'}
          </Button>
        </span>
        <Problem error={error} />
      </td>
    </tr>
  );
}

function HowToRestore({ file }: { file: BackupFile | undefined }) {
  const { system } = useGateway();
  const from = file?.file ?? '<file>';
  const command = `svc restore ${quoted(from)} --data-dir ${quoted(`${system?.dataDir ?? '/srv/svc'}-restored`)}`;
  return (
    <Card title="Restore">
      <p class="hint">
        A backup is restored into a new directory, on the machine of the gateway or another one. Stop this gateway, then
        start one on the new directory: schedules of both would fire. Copy <code>secrets.key</code> from the old
        directory before, or set the secrets again.
      </p>
      <div class="line backup-command">
        <code>{command}</code>
        <CopyButton text={command} />
      </div>
    </Card>
  );
}

const quoted = (text: string): string =>
  /^[\w./:@%+=,<>-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

function Schedule({ status, onDone, onClose }: { status: BackupStatus; onDone: () => void; onClose: () => void }) {
  const { schedule } = status;
  const [cron, setCron] = useState(schedule?.cron ?? NIGHTLY.cron);
  const [keep, setKeep] = useState(String(schedule?.keep ?? NIGHTLY.keep));
  const [dir, setDir] = useState(schedule?.dir ?? '');
  const { isBusy, error, run, clear } = useWork();
  useEffect(clear, [cron, keep, dir, clear]);
  const set = async (event: Event) => {
    event.preventDefault();
    const body = { cron: cron.trim(), keep: Number(keep), ...(dir.trim() !== '' && { dir: dir.trim() }) };
    if (!(await run(() => gateway.call('PUT /svc/_backups', { body })))) return;
    notify('Backups are made on schedule.');
    onDone();
    onClose();
  };
  const end = async () => {
    if (!(await run(() => gateway.call('DELETE /svc/_backups')))) return;
    notify('Backups on schedule are off. Existing backups stay.');
    onDone();
    onClose();
  };
  const words = scheduleWords(cron);
  const problemOf = (name: string) => (error?.path === name ? error.message : undefined);
  return (
    <Dialog title="Backups on schedule" onClose={onClose}>
      <form class="stack" onSubmit={set}>
        <Field
          label="When"
          hint={`A cron expression, in the time zone of the gateway${words === null ? '' : `: ${words}`}`}
          problem={problemOf('cron')}
        >
          <input
            value={cron}
            required
            onInput={({ currentTarget }) => setCron(currentTarget.value)}
            spellcheck={false}
          />
        </Field>
        <Field label="Files to keep" hint="The oldest go after each good one" problem={problemOf('keep')}>
          <input
            type="number"
            min={1}
            max={1000}
            value={keep}
            required
            onInput={({ currentTarget }) => setKeep(currentTarget.value)}
          />
        </Field>
        <Field
          label="Folder"
          hint="On the machine of the gateway; best on another disk. Left empty: backups in its data directory"
          problem={problemOf('dir')}
        >
          <input value={dir} onInput={({ currentTarget }) => setDir(currentTarget.value)} spellcheck={false} />
        </Field>
        {error && !['cron', 'keep', 'dir'].includes(error.path ?? '') && <Problem error={error} />}
        <div class="line end">
          {schedule && (
            <Button disabled={isBusy} onClick={end}>
              End the schedule
            </Button>
          )}
          <Button kind="primary" type="submit" disabled={isBusy}>
            Store
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
