/** The files that an app keeps: listed page by page, looked at, uploaded, downloaded and deleted. */
import { useRef, useState } from 'preact/hooks';
import type { Received } from '../../../protocol/routes/api.ts';
import { go, hrefOf } from '../../address.ts';
import { signedAddress } from '../../bridge/page-key.ts';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Empty, Loading, Problem } from '../../ui/parts.tsx';
import { ago, bytes, clock, plural } from '../../words.ts';
import type { AppViewProps } from '../views.ts';
import { type DeleteProps, DeleteQuestion } from './delete-question.tsx';
import { addressOfFile, calledOf, type KeptFile, nameOf, shortName } from './file-names.ts';
import { Preview } from './preview.tsx';
import { Thumbnail } from './thumbnail.tsx';
import { Uploads, useUploads } from './uploads.tsx';
import { UseLinks } from './use-links.tsx';
import { type Use, type Uses, usesOf, useUses } from './uses.ts';

const PAGE_FILES = 100;

const SORTS = ['newest', 'largest'] as const;

export function FilesView({ app, address }: AppViewProps) {
  const [sort, prefix, after] = ['sort', 'prefix', 'after'].map((name) => address.query.get(name) ?? '');
  const page = Number(address.query.get('page') ?? 1);
  const shown = address.query.get('file');
  const { id } = app;
  const query = {
    limit: PAGE_FILES,
    sort: SORTS.find((one) => one === sort),
    prefix: prefix || undefined,
    after: after || undefined,
  };
  const load = (signal: AbortSignal) => gateway.call('GET /svc/:id/_blobs', { params: { id }, query }, { signal });
  const { value: list, error, reload } = usePolled(load, JSON.stringify([id, query]), 0);
  const [deleting, setDeleting] = useState<Pick<DeleteProps, 'row' | 'uses'>>();
  const uses = useUses(app.id, list?.files.map(({ sha256 }) => sha256) ?? []);
  const uploads = useUploads(id, list?.usage, reload);

  /** The view with other members in its address; `undefined` takes one out. */
  const hrefWith = (members: Record<string, string | number | undefined>) =>
    hrefOf(['apps', app.id, 'files'], { sort, prefix, after, page: page > 1 ? page : undefined, ...members });
  /** Looks first whether anything uses it; null where that cannot be known. */
  const ask = (row: KeptFile) =>
    usesOf(app.id, [row.sha256], { isWithin: true }).then(
      (found) => setDeleting({ row, uses: found.get(row.sha256) ?? [] }),
      () => setDeleting({ row, uses: null }),
    );
  const first = { after: undefined, page: undefined };
  const drop = async ({ sha256 }: KeptFile) => {
    await gateway.call('DELETE /svc/:id/_blobs/:sha256', { params: { id, sha256 } });
    notify(`${shortName(sha256)} is deleted.`);
    if (shown === sha256) go(hrefWith({ file: undefined }), { replace: true });
    reload();
  };

  return (
    <DropZone onDrop={uploads.add}>
      <div class="line files-bar">
        <Find
          key={prefix}
          prefix={prefix ?? ''}
          onFind={(text) => go(hrefWith({ ...first, prefix: text || undefined }))}
        />
        <label class="line">
          <span class="hint">Sort</span>
          <select
            value={sort || 'newest'}
            onChange={({ currentTarget: { value } }) =>
              go(hrefWith({ ...first, sort: value === 'newest' ? undefined : value }))
            }
          >
            <option value="newest">Newest first</option>
            <option value="largest">Largest first</option>
          </select>
        </label>
        <span class="line heading-end">
          <Button class="small" onClick={reload}>
            Reload
          </Button>
          <UploadButton onFiles={uploads.add} />
        </span>
      </div>
      {list && <Usage {...list.usage} />}
      <Uploads {...uploads} hrefOfFile={(sha256) => hrefWith({ file: sha256 })} />
      <Problem error={error} retry={reload} />
      {!list && !error && <Loading />}
      {list && list.files.length > 0 && (
        <Rows
          app={app.id}
          rows={list.files}
          uses={uses}
          hrefOfFile={(sha256) => hrefWith({ file: sha256 })}
          onDelete={ask}
        />
      )}
      {list?.files.length === 0 && <Nothing app={app.id} prefix={prefix ?? ''} isEmpty={list.usage.files === 0} />}
      <Pages
        page={page}
        first={after ? hrefWith(first) : null}
        next={list?.next ? hrefWith({ after: list.next, page: page + 1 }) : null}
      />
      {shown && (
        <Preview
          key={shown}
          app={app}
          sha256={shown}
          onDelete={ask}
          onClose={() => go(hrefWith({ file: undefined }), { replace: true })}
        />
      )}
      {deleting && (
        <DeleteQuestion
          app={app.id}
          {...deleting}
          onDone={() => drop(deleting.row)}
          onClose={() => setDeleting(undefined)}
        />
      )}
    </DropZone>
  );
}

function Find({ prefix, onFind }: { prefix: string; onFind: (text: string) => void }) {
  const [text, setText] = useState(prefix);
  const find = (event: Event) => {
    event.preventDefault();
    onFind(text.trim().toLowerCase());
  };
  return (
    <form class="line" onSubmit={find}>
      <input
        type="search"
        aria-label="SHA-256, or its beginning"
        placeholder="SHA-256, or its beginning"
        value={text}
        maxLength={64}
        pattern="\s*[0-9A-Fa-f]*\s*"
        title="Digits and the letters a to f"
        spellcheck={false}
        autocapitalize="off"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
      <Button type="submit" class="small">
        Find
      </Button>
    </form>
  );
}

function UploadButton({ onFiles }: { onFiles: (files: readonly File[]) => void }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={field}
        class="unseen"
        type="file"
        multiple
        tabIndex={-1}
        aria-label="Files to upload"
        onChange={({ currentTarget }) => {
          onFiles([...(currentTarget.files ?? [])]);
          // So that the same file can be chosen again.
          currentTarget.value = '';
        }}
      />
      <Button kind="primary" class="small" onClick={() => field.current?.click()}>
        Upload…
      </Button>
    </>
  );
}

function Usage({ files, bytes: used, quota }: Received<'GET /svc/:id/_blobs'>['usage']) {
  return (
    <p class="files-usage">
      <span role="status">
        {plural(files, 'file')}, {bytes(used)} of {bytes(quota)}
      </span>
      <meter aria-label="Share of the quota" min={0} max={Math.max(quota, 1)} high={quota * 0.9} value={used} />
    </p>
  );
}

type RowsProps = {
  app: string;
  rows: readonly KeptFile[];
  /** Undefined while they are read. */
  uses: Uses | undefined;
  hrefOfFile: (sha256: string) => string;
  onDelete: (row: KeptFile) => void;
};

function Rows({ app, rows, uses, hrefOfFile, onDelete }: RowsProps) {
  return (
    <Card class="table">
      <table class="kept-files">
        <thead>
          <tr>
            <th>File</th>
            <th class="wide">Used by</th>
            <th class="wide">Type</th>
            <th class="number">Size</th>
            <th class="wide">Stored</th>
            <th>
              <span class="unseen">What to do</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <FileRow
              key={row.sha256}
              {...{ app, row, onDelete }}
              uses={uses?.get(row.sha256)}
              href={hrefOfFile(row.sha256)}
            />
          ))}
        </tbody>
      </table>
    </Card>
  );
}

type FileRowProps = Pick<RowsProps, 'app' | 'onDelete'> & {
  row: KeptFile;
  uses: readonly Use[] | undefined;
  href: string;
};

function FileRow({ app, row, uses = [], href, onDelete }: FileRowProps) {
  const called = calledOf(uses);
  const name = nameOf(row, uses);
  return (
    <tr>
      <td>
        <span class="file-name">
          <Thumbnail app={app} row={row} />
          <span>
            <a href={href}>{called ?? <code>{shortName(row.sha256)}</code>}</a>
            {called && <code class="hint file-sha">{shortName(row.sha256)}</code>}
          </span>
        </span>
      </td>
      <td class="wide">
        {uses.length > 0 ? (
          <UseLinks app={app} sha256={row.sha256} uses={uses} most={1} />
        ) : (
          <span class="hint">–</span>
        )}
      </td>
      <td class="wide file-type">{row.type}</td>
      <td class="number">{bytes(row.size)}</td>
      <td class="wide hint" title={clock(row.storedAt)}>
        {ago(row.storedAt)}
      </td>
      <td>
        <span class="row-acts">
          <a
            class="button small wide"
            href={signedAddress(addressOfFile(app, row.sha256))}
            download={name}
            aria-label={`Download ${name}`}
          >
            Download
          </a>
          <Button
            class="small wide"
            aria-label={`Delete ${called ?? shortName(row.sha256)}`}
            onClick={() => onDelete(row)}
          >
            Delete
          </Button>
        </span>
      </td>
    </tr>
  );
}

function Pages({ page, first, next }: { page: number; first: string | null; next: string | null }) {
  if (first === null && next === null) return null;
  return (
    <nav class="line files-pages" aria-label="Pages">
      {first && <a href={first}>First page</a>}
      <span class="hint">Page {page}</span>
      {next && <a href={next}>Next page</a>}
    </nav>
  );
}

function Nothing({ app, prefix, isEmpty }: { app: string; prefix: string; isEmpty: boolean }) {
  if (!isEmpty)
    return (
      <Empty title={prefix ? `No file begins with ${prefix}` : 'There are no more files'}>
        <p>
          <a href={hrefOf(['apps', app, 'files'])}>All files</a>
        </p>
      </Empty>
    );
  return (
    <Empty title="The app keeps no files yet">
      <p>Drop some here, or choose Upload. An app stores its own:</p>
      <div class="files-how">
        <p>
          In a handler: <code>await ctx.blobs.put(bytes, {'{ type: "image/png" }'})</code>
        </p>
        <p>
          In a page: <code>await svc.upload(file)</code>
        </p>
        <p>
          On the command line: <code>svc files put {app} photo.jpg</code>
        </p>
      </div>
    </Empty>
  );
}

/** Takes files that are dropped anywhere on the view. */
function DropZone({
  onDrop,
  children,
}: {
  onDrop: (files: readonly File[], folders: number) => void;
  children: unknown;
}) {
  const [isOver, setOver] = useState(false);
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true;
  const dropped = (event: DragEvent) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setOver(false);
    const items = [...(event.dataTransfer?.items ?? [])].filter(({ kind }) => kind === 'file');
    const isFolder = (item: DataTransferItem) => item.webkitGetAsEntry()?.isDirectory === true;
    const folders = items.filter(isFolder).length;
    const files = items.filter((item) => !isFolder(item)).flatMap((item) => item.getAsFile() ?? []);
    onDrop(files, folders);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the same is done by the button.
    <div
      class={isOver ? 'files-view over' : 'files-view'}
      onDragOver={(event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={({ currentTarget, relatedTarget }) => {
        if (!currentTarget.contains(relatedTarget as Node | null)) setOver(false);
      }}
      onDrop={dropped}
    >
      {children as never}
    </div>
  );
}
