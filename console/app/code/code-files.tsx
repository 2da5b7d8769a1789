/** The files of a version or a draft: their list, the editor, what the gates found, and the draft's page beside. */
import type { ComponentChildren } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { route } from '../../../protocol/http/addresses.ts';
import { go } from '../../address.ts';
import { GatewayError } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { PageFrame } from '../../ui/page-frame.tsx';
import { Button, Confirm, Dialog, Empty, Field, Loading, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import { filesOf, follow, isUnsaved, type OpenFile, openFile, reopen, save } from './buffers.ts';
import {
  type CodeFile,
  checkDraft,
  deleteFile,
  listFiles,
  renameFile,
  type Source,
  writeFile,
} from './code-workspace.ts';
import { Editor, type Finding } from './editor.tsx';
import { type Status, statusesOf } from './file-tree.ts';
import { FileTree } from './file-tree.tsx';
import { FindingList } from './publish.tsx';

/** After a file was saved, before the draft is checked. */
const CHECK_PAUSE_MS = 300;

type FilesProps = {
  source: Source;
  /** The one that the address names. */
  file: string | null;
  hrefTo: (file: string | undefined) => string;
  /** The link to what the draft changes. */
  changesHref: string;
  /** The version that is live; null where there is none. */
  liveVersion: string | null;
  hasPreview: boolean;
  /** Where to go to in a file, once for each new object. */
  place: Place | null;
  /** Shows the place of a finding. */
  onOpen: (finding: Finding) => void;
  /** What the last publication was refused for. */
  refused: readonly Finding[];
  /** Called when something was written: what was found may be mended. */
  onWritten: () => void;
};

export type Place = { file: string; line: number; column: number };

type Asked = { what: 'new' | 'rename' | 'delete' } | null;

export function Files(props: FilesProps) {
  const {
    source,
    file: wanted,
    hrefTo,
    changesHref,
    liveVersion,
    hasPreview,
    place,
    onOpen,
    refused,
    onWritten,
  } = props;
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const isDraft = source.workspace !== null;
  const load = async () => {
    const now = await listFiles(source);
    await follow(source, now);
    return now;
  };
  const { value: files, error, reload } = usePolled(load, JSON.stringify(source), isDraft ? undefined : 0);
  const live = useLiveFiles(source, liveVersion);
  const [written, countWritten] = useReducer((count: number) => count + 1, 0);
  const [asked, ask] = useState<Asked>(null);
  const current = wanted ?? files?.find(({ path }) => path === 'app.json')?.path ?? null;

  const findings = useDraftCheck(source, files?.map(({ sha }) => sha).join(), written);

  const changed = () => {
    countWritten(undefined);
    onWritten();
    reload();
  };
  const all = [...findings, ...refused.filter((one) => !findings.some(({ message }) => message === one.message))];
  if (!files) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const known = files.find(({ path }) => path === current);
  const statuses = statusesOf(files, live);
  const newFile = (
    <Button class="small" onClick={() => ask({ what: 'new' })}>
      New file
    </Button>
  );
  return (
    <div class={`code-body${hasPreview && isDraft ? ' with-preview' : ''}`}>
      <FileTree
        files={files}
        live={live}
        current={current}
        hrefTo={hrefTo}
        changesHref={changesHref}
        isUnsaved={(path) => isOpenUnsaved(source, path)}
        findings={all}
      >
        {isDraft && newFile}
      </FileTree>
      <FileChoice files={files} statuses={statuses} current={current} hrefTo={hrefTo}>
        {isDraft && newFile}
      </FileChoice>
      {current === null ? (
        <Empty title="No file is shown">
          <p>Choose one from the list.</p>
        </Empty>
      ) : (
        <OneFile
          key={current}
          source={source}
          path={current}
          exists={known !== undefined}
          findings={all.filter(({ file }) => file === current)}
          place={place?.file === current ? place : null}
          onDraw={() => draw(undefined)}
          onWritten={changed}
          onAsk={(what) => ask({ what })}
        >
          {isDraft && all.length > 0 && <FindingList findings={all} onOpen={onOpen} />}
        </OneFile>
      )}
      {hasPreview && source.workspace !== null && (
        <PageFrame page={route`/svc/_draft/${source.workspace}/${source.app}/`} />
      )}
      {asked?.what === 'delete' && known && (
        <Confirm
          title={`Delete ${known.path}?`}
          verb="Delete"
          onClose={() => ask(null)}
          onDone={async () => {
            await deleteFile(source, known.path, known.sha);
            filesOf(source).delete(known.path);
            changed();
            go(hrefTo(undefined));
          }}
        >
          <p>The file is deleted from this draft. The live version stays as it is until you publish.</p>
        </Confirm>
      )}
      {(asked?.what === 'new' || (asked?.what === 'rename' && known)) && (
        <NameDialog
          source={source}
          file={asked.what === 'rename' ? known : undefined}
          onClose={() => ask(null)}
          onNamed={(name) => {
            changed();
            go(hrefTo(name));
          }}
        />
      )}
    </div>
  );
}

/** What a draft is compared with: the files of the live version, none where no version is; null until they are read, and for a version. */
function useLiveFiles({ app, workspace }: Source, version: string | null): CodeFile[] | null {
  const load = async () =>
    workspace !== null && version !== null ? await listFiles({ app, version, workspace: null }) : [];
  const { value = null } = usePolled(load, `${app} ${version}`, 0);
  return workspace === null ? null : value;
}

/** The draft is checked anew when a file was written, by whoever it was: `state` or `written` has changed then. */
function useDraftCheck({ app, workspace }: Source, state: string | undefined, written: number): readonly Finding[] {
  const [findings, setFindings] = useState<readonly Finding[]>([]);
  useEffect(() => {
    if (workspace === null || state === undefined) return;
    let isLate = false;
    // Several files may be saved at once; only what the last check found counts.
    const timer = setTimeout(() => {
      checkDraft(app, workspace).then(
        (found) => !isLate && setFindings(found),
        () => {},
      );
    }, CHECK_PAUSE_MS);
    return () => {
      isLate = true;
      clearTimeout(timer);
    };
  }, [state, written]);
  return findings;
}

type ChoiceProps = Pick<FilesProps, 'hrefTo'> & {
  files: readonly CodeFile[];
  statuses: ReadonlyMap<string, Status | null>;
  current: string | null;
  children: ComponentChildren;
};

/** In place of the tree in a narrow window. */
function FileChoice({ files, statuses, current, hrefTo, children }: ChoiceProps) {
  return (
    <div class="file-choice">
      <select aria-label="File" value={current ?? ''} onChange={({ currentTarget }) => go(hrefTo(currentTarget.value))}>
        {files.map(({ path }) => (
          <option key={path} value={path}>
            {[path, statuses.get(path)].filter(Boolean).join(' – ')}
          </option>
        ))}
      </select>
      {children}
    </div>
  );
}

function isOpenUnsaved(source: Source, path: string): boolean {
  const opened = filesOf(source).get(path);
  return opened !== undefined && isUnsaved(opened);
}

type NameProps = {
  source: Source;
  /** The one that gets another name; without it a new one is made. */
  file: CodeFile | undefined;
  onClose: () => void;
  onNamed: (name: string) => void;
};

function NameDialog({ source, file, onClose, onNamed }: NameProps) {
  const [name, setName] = useState(file?.path ?? '');
  const { isBusy, error, run } = useWork();
  const submit = async (event: Event) => {
    event.preventDefault();
    const wanted = name.trim();
    const done = await run(async () => {
      if (!file) return await writeFile(source, wanted, '', null);
      // What is typed and not saved goes along.
      const opened = filesOf(source).get(file.path);
      if (opened && isUnsaved(opened)) await save(source, opened);
      await renameFile(source, file.path, wanted, opened?.sha ?? file.sha);
      filesOf(source).delete(file.path);
    });
    if (!done) return;
    onClose();
    onNamed(wanted);
  };
  return (
    <Dialog title={file ? `Rename ${file.path}` : 'New file'} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <Field label="Path" hint="Inside the app, such as queries/list.js" problem={error?.message}>
          <input
            value={name}
            required
            autofocus
            spellcheck={false}
            autocomplete="off"
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </Field>
        <div class="line end">
          <Button type="submit" kind="primary" disabled={isBusy || name.trim() === file?.path}>
            {file ? 'Rename' : 'Make file'}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

type OneFileProps = {
  source: Source;
  path: string;
  /** It is among the files of the source. */
  exists: boolean;
  findings: readonly Finding[];
  place: { line: number; column: number } | null;
  /** Something of it changed that the list shows. */
  onDraw: () => void;
  onWritten: () => void;
  onAsk: (what: 'rename' | 'delete') => void;
  children: ComponentChildren;
};

function OneFile({ source, path, exists, findings, place, onDraw, onWritten, onAsk, children }: OneFileProps) {
  const isDraft = source.workspace !== null;
  const [file, setFile] = useState<OpenFile>();
  const [problem, setProblem] = useState<Error>();
  const { isBusy, error, run, clear } = useWork();
  const wasUnsaved = useRef(false);
  useEffect(() => {
    openFile(source, path).then(setFile, setProblem);
  }, [exists]);

  const store = async (options: { overwrite?: boolean } = {}) => {
    if (!file || !isDraft) return;
    if (await run(() => save(source, file, options))) onWritten();
    onDraw();
  };
  const takeTheirs = () =>
    run(async () => {
      if (file) await reopen(source, file);
      clear();
      onDraw();
    });
  const isUnsavedNow = file !== undefined && isUnsaved(file);
  const isConflict = error instanceof GatewayError && error.code === 'PRECONDITION_FAILED';
  return (
    <section
      class="code-file card"
      aria-label={path}
      onKeyDown={(event) => {
        if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 's') return;
        event.preventDefault();
        void store();
      }}
    >
      <header class="code-file-head">
        <code>{path}</code>
        <span class="hint" role="status">
          {isUnsavedNow ? 'not saved' : ''}
        </span>
        {isDraft && file && (
          <div class="code-acts">
            <Button class="small" onClick={() => onAsk('rename')}>
              Rename
            </Button>
            <Button class="small" onClick={() => onAsk('delete')}>
              Delete
            </Button>
            <Button
              class="small"
              kind="primary"
              disabled={isBusy || !isUnsavedNow}
              aria-keyshortcuts="Control+S Meta+S"
              onClick={() => void store()}
            >
              Save
            </Button>
          </div>
        )}
      </header>
      {isConflict ? (
        <div class="conflict" role="alert">
          <p>Somebody else changed this file in the meantime. Nothing was overwritten.</p>
          <div class="line">
            <Button class="small" onClick={() => void takeTheirs()}>
              Use theirs, drop mine
            </Button>
            <Button class="small" onClick={() => void store({ overwrite: true })}>
              Save mine over theirs
            </Button>
          </div>
        </div>
      ) : (
        <Problem error={error ?? problem} />
      )}
      {file?.state ? (
        <Editor
          key={file.edition}
          state={file.state}
          findings={findings}
          place={place}
          onChange={(state) => {
            file.state = state;
            if (isUnsaved(file) !== wasUnsaved.current) {
              wasUnsaved.current = !wasUnsaved.current;
              onDraw();
            }
          }}
        />
      ) : file ? (
        <Empty title="This file is no text">
          <p>Replace it by uploading another: svc push, or svc dev.</p>
        </Empty>
      ) : (
        !problem && <Loading />
      )}
      {children}
    </section>
  );
}
