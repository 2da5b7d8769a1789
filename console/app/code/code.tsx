/** The code of an app: the files of its versions, a draft that is edited, previewed and published, and rollbacks. */
import { useState } from 'preact/hooks';
import { go, hrefOf } from '../../address.ts';
import { gateway } from '../../gateway.ts';
import { isOwners, useGateway } from '../../gateway-state.tsx';
import { usePolled } from '../../polled.ts';
import { notify } from '../../ui/notice.tsx';
import { Button, Confirm, Empty, Loading, Problem } from '../../ui/parts.tsx';
import { ago, plural } from '../../words.ts';
import { useWork } from '../../work.ts';
import type { AppViewProps } from '../views.ts';
import { forget, unsavedOf } from './buffers.ts';
import { Brought, broughtBy, FileDiffs } from './changes.tsx';
import { Files, type Place } from './code-files.tsx';
import { keyOf, openDraft, readDiff, readWorkspaces, type Source, type WorkspaceRow } from './code-workspace.ts';
import { draftTitle, RenameDraft } from './draft-name.tsx';
import type { Finding } from './editor.tsx';
import { GetCode } from './get-code.tsx';
import { PublishDialog } from './publish.tsx';
import { Tests } from './tests.tsx';
import { Versions } from './versions.tsx';

const PARTS = [
  { id: 'files', text: 'Files' },
  { id: 'changes', text: 'Changes' },
  { id: 'versions', text: 'Versions' },
] as const;

/** What is shown is in the address: `session` or `version`, `show`, `file`, `preview`. */
export function CodeView(props: AppViewProps) {
  const { app, address } = props;
  const { query } = address;
  const workspace = query.get('session');
  const version = query.get('version') ?? app.activeVersion;
  const shown = query.get('show') ?? 'files';
  const hasDrafts = app.backend === 'git';
  const load = async () => (hasDrafts ? await readWorkspaces(app.id) : []);
  const { value: workspaces = [], reload } = usePolled(load, app.id);
  const [open, setOpen] = useState<'publish' | 'discard' | 'code' | null>(null);
  const { isBusy, error, run } = useWork();
  /** What the last publication was refused for, until something is written. */
  const [refused, setRefused] = useState<readonly Finding[]>([]);
  const [place, setPlace] = useState<Place | null>(null);
  /** Counts the runs of the draft's tests; 0 while none is shown. */
  const state = useGateway();
  const [tested, setTested] = useState(0);
  const href = (change: Record<string, string | undefined>) =>
    hrefOf(['apps', app.id, 'code'], { ...Object.fromEntries(query), line: undefined, column: undefined, ...change });

  const openFinding = ({ file, line = 1, column = 1 }: Finding) => {
    setPlace({ file, line, column });
    go(href({ file, show: undefined }));
  };
  const edit = () =>
    run(async () => {
      go(hrefOf(['apps', app.id, 'code'], { session: await openDraft(), file: query.get('file') ?? undefined }));
    });
  const source: Source | null =
    workspace !== null
      ? { app: app.id, workspace, version: null }
      : version !== null
        ? { app: app.id, workspace: null, version }
        : null;
  const draft = workspaces.find(({ sessionId }) => sessionId === workspace);
  const parts = PARTS.filter(({ id }) => id !== 'changes' || workspace !== null);
  const published = () => {
    reload();
    props.reload();
  };
  return (
    <div class="code">
      <div class="code-bar">
        <nav class="segments" aria-label="Parts of the code">
          {parts.map(({ id, text }) => (
            <a
              key={id}
              href={href({ show: id === 'files' ? undefined : id })}
              aria-current={id === shown ? 'page' : undefined}
            >
              {text}
            </a>
          ))}
        </nav>
        {shown !== 'versions' && <SourceChoice {...{ app, workspaces, workspace, version }} />}
        {shown !== 'versions' && draft !== undefined && (
          <RenameDraft workspace={draft.sessionId} name={draft.name} onRenamed={reload} />
        )}
        <div class="code-acts">
          {version !== null && (
            <Button class="small" onClick={() => setOpen('code')}>
              Get the code
            </Button>
          )}
          {workspace === null && hasDrafts && (
            <Button kind="primary" class="small" disabled={isBusy} onClick={() => void edit()}>
              Edit
            </Button>
          )}
          {workspace !== null && (
            <>
              <a
                class="button plain small"
                href={href({ preview: query.has('preview') ? undefined : '1', show: undefined })}
                aria-current={query.has('preview') ? 'true' : undefined}
              >
                Preview
              </a>
              {isOwners(state) && (
                <Button class="small" onClick={() => setTested((count) => count + 1)}>
                  Run tests
                </Button>
              )}
              <Button class="small" onClick={() => setOpen('discard')}>
                Discard
              </Button>
              <Button kind="primary" class="small" onClick={() => setOpen('publish')}>
                Publish
              </Button>
            </>
          )}
        </div>
      </div>
      <Problem error={error} />
      {!hasDrafts && shown === 'files' && (
        <p class="hint">
          This is the live code. To edit it here, stop the gateway, run <code>svc convert --store git</code>, and start
          it again.
        </p>
      )}
      {tested > 0 && workspace !== null && (
        <Tests
          key={`${workspace} ${tested}`}
          app={app.id}
          workspace={workspace}
          onOpen={openFinding}
          onAgain={() => setTested(tested + 1)}
          onClose={() => setTested(0)}
        />
      )}
      <Part
        app={app}
        source={source}
        shown={shown}
        query={query}
        href={href}
        place={place}
        onOpen={openFinding}
        refused={refused}
        onWritten={() => setRefused([])}
        onChanged={published}
      />
      {open === 'code' && source !== null && version !== null && (
        <GetCode source={source} version={version} onClose={() => setOpen(null)} />
      )}
      {open === 'publish' && workspace !== null && (
        <PublishDialog
          app={app.id}
          workspace={workspace}
          onClose={() => setOpen(null)}
          onPublished={published}
          onRefused={setRefused}
          onOpen={openFinding}
        />
      )}
      {open === 'discard' && workspace !== null && source !== null && (
        <Confirm
          title="Discard this draft?"
          verb="Discard"
          onClose={() => setOpen(null)}
          onDone={async () => {
            await gateway.call('DELETE /svc/_sessions/:sid', { params: { sid: workspace } });
            forget(source);
            reload();
            notify('The draft is discarded.');
            go(hrefOf(['apps', app.id, 'code']), { replace: true });
          }}
        >
          <p>
            Its changes, its data and its secrets are lost
            {unsavedOf(source).length > 0 &&
              `, and so is ${plural(unsavedOf(source).length, 'text')} that is not saved`}
            . What is live stays as it is.
          </p>
        </Confirm>
      )}
    </div>
  );
}

type PartProps = Pick<AppViewProps, 'app'> & {
  source: Source | null;
  shown: string;
  query: URLSearchParams;
  href: (change: Record<string, string | undefined>) => string;
  place: Place | null;
  onOpen: (finding: Finding) => void;
  refused: readonly Finding[];
  onWritten: () => void;
  onChanged: () => void;
};

function Part({ app, source, shown, query, href, place, onOpen, refused, onWritten, onChanged }: PartProps) {
  if (shown === 'versions') return <Versions app={app} onChanged={onChanged} />;
  if (source === null) {
    return (
      <Empty title="No version is live">
        <p>
          Make one of its <a href={href({ show: 'versions' })}>versions</a> live, or upload one:{' '}
          <code>svc push {app.id}</code>
        </p>
      </Empty>
    );
  }
  if (shown === 'changes' && source.workspace !== null) return <Changes app={app.id} workspace={source.workspace} />;
  return (
    <Files
      key={keyOf(source)}
      source={source}
      file={query.get('file')}
      hrefTo={(file) => href({ file, show: undefined })}
      changesHref={href({ show: 'changes' })}
      liveVersion={app.activeVersion}
      hasPreview={query.has('preview')}
      place={place}
      onOpen={onOpen}
      refused={refused}
      onWritten={onWritten}
    />
  );
}

type ChoiceProps = Pick<AppViewProps, 'app'> & {
  workspaces: readonly WorkspaceRow[];
  workspace: string | null;
  version: string | null;
};

/** The live version, the drafts of the app, and another version that is looked at. */
function SourceChoice({ app, workspaces, workspace, version }: ChoiceProps) {
  const isOther = workspace === null && version !== null && version !== app.activeVersion;
  const isNew = workspace !== null && !workspaces.some(({ sessionId }) => sessionId === workspace);
  return (
    <select
      aria-label="What is shown"
      value={workspace === null ? (isOther ? 'other' : '') : `s ${workspace}`}
      onChange={({ currentTarget: { value } }) => {
        const chosen = value.startsWith('s ') ? value.slice(2) : undefined;
        go(hrefOf(['apps', app.id, 'code'], { session: chosen }));
      }}
    >
      {app.activeVersion !== null && <option value="">Live: {app.activeVersion}</option>}
      {isOther && <option value="other">Version {version}</option>}
      {isNew && <option value={`s ${workspace}`}>Draft {workspace}</option>}
      {workspaces.map(({ sessionId, name, touchedAt }) => (
        <option key={sessionId} value={`s ${sessionId}`}>
          {draftTitle({ sessionId, name })}, {ago(touchedAt)}
        </option>
      ))}
    </select>
  );
}

/** What a draft changes against the version that is live. */
function Changes({ app, workspace }: { app: string; workspace: string }) {
  const { value: diff, error, reload } = usePolled(() => readDiff(app, workspace), `${app} ${workspace}`);
  if (!diff) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  if (diff.files.length === 0) {
    return (
      <Empty title="Nothing is changed">
        <p>Changes that you save in this draft are compared here with the live version.</p>
      </Empty>
    );
  }
  return (
    <div class="code-scroll card">
      <Brought texts={broughtBy(diff)} />
      <FileDiffs files={diff.files} />
    </div>
  );
}
