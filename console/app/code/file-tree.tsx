/** The files of a version or a draft as a tree, with what is changed, not saved and wrong; the arrow keys move in it. */
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { GitFile } from '../../../protocol/wire/git-jobs.ts';
import type { Finding } from './editor.tsx';
import { type TreeFile, type TreeFolder, treeOf } from './file-tree.ts';

/** With more files, only folders with something to see are open at first. */
const OPEN_FILES = 40;

type TreeProps = {
  files: readonly GitFile[];
  /** Of the version that is live, for a draft; null for no comparison. */
  live: readonly GitFile[] | null;
  current: string | null;
  hrefTo: (path: string) => string;
  /** Where the text of a deleted file is. */
  changesHref: string;
  isUnsaved: (path: string) => boolean;
  findings: readonly Finding[];
  /** Before the tree. */
  children?: ComponentChildren;
};

export function FileTree(props: TreeProps) {
  const { files, live, current, children } = props;
  const tree = useMemo(() => treeOf(files, live), [files, live]);
  /** What somebody opened or closed, by path. */
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const isOpen = ({ path, isChanged }: TreeFolder): boolean =>
    chosen.get(path) ?? (files.length <= OPEN_FILES || isChanged || current?.startsWith(`${path}/`) === true);
  const set = (path: string, open: boolean) => setChosen((known) => new Map(known).set(path, open));

  const draw = (folder: TreeFolder) => (
    <ul>
      {folder.folders.map((one) => (
        <li key={one.path}>
          <button
            type="button"
            class="folder"
            aria-expanded={isOpen(one)}
            data-path={one.path}
            onClick={() => set(one.path, !isOpen(one))}
          >
            {one.name}
            {one.isChanged && !isOpen(one) && <span class="changes" role="img" aria-label="has changes" />}
          </button>
          {isOpen(one) && draw(one)}
        </li>
      ))}
      {folder.files.map((file) => (
        <li key={file.path}>
          <FileLink file={file} {...props} />
        </li>
      ))}
    </ul>
  );

  const onKeyDown = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const all = [...event.currentTarget.querySelectorAll<HTMLElement>('a, button')];
    const at = all.indexOf(event.target as HTMLElement);
    const folder = all[at]?.dataset.path;
    const open = all[at]?.getAttribute('aria-expanded') === 'true';
    if (event.key === 'ArrowDown') all[at + 1]?.focus();
    else if (event.key === 'ArrowUp') all[at - 1]?.focus();
    else if (event.key === 'ArrowRight' && folder !== undefined && !open) set(folder, true);
    else if (event.key === 'ArrowLeft' && folder !== undefined && open) set(folder, false);
    else if (event.key === 'ArrowLeft')
      all[at]?.closest('ul')?.parentElement?.querySelector<HTMLElement>('.folder')?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <nav class="file-list card" aria-label="Files" onKeyDown={onKeyDown}>
      {children}
      <div class="file-tree">{draw(tree)}</div>
    </nav>
  );
}

function FileLink({
  file: { name, path, status },
  current,
  hrefTo,
  changesHref,
  isUnsaved,
  findings,
}: TreeProps & { file: TreeFile }) {
  const unsaved = isUnsaved(path);
  const own = findings.filter(({ file }) => file === path);
  const isWrong = own.some(({ isWarning }) => !isWarning);
  const isDoubtful = own.length > 0 && !isWrong;
  const found = isWrong ? 'something is wrong' : isDoubtful && 'something may be wrong';
  const words = [path, unsaved && 'not saved', found, status];
  return (
    <a
      href={status === 'deleted' ? changesHref : hrefTo(path)}
      aria-current={path === current ? 'page' : undefined}
      aria-label={words.filter(Boolean).join(' ')}
      title={status === null ? path : `${path}: ${status}`}
      data-status={status}
    >
      <span class="file-name">{name}</span>
      {/* Their signs are drawn by the style: what they mean is in the name of the link. */}
      <span class="marks">
        {unsaved && <span class="unsaved" />}
        {isWrong && <span class="wrong" />}
        {isDoubtful && <span class="doubtful" />}
        {status !== null && <span class="status" />}
      </span>
    </a>
  );
}
