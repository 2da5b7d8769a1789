/** The draft that a conversation works on: what is wrong with it, how much it changes, its diff, and its publication. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { go, hrefOf } from '../../address.ts';
import { keeping, showMinted } from '../../ui/minted.tsx';
import { Button, Dialog } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import { Brought, broughtBy, type DraftDiff, FileDiffs } from '../code/changes.tsx';
import { checkDraft, publish, readDiff } from '../code/code-workspace.ts';
import type { Finding } from '../code/editor.tsx';
import { FindingList } from '../code/publish.tsx';

/** From a change of a file until the diff is read again, milliseconds. */
const SETTLE_MS = 500;

type DraftProps = {
  app: string;
  workspace: string;
  /** Grows when something was done in the draft. */
  edits: number;
  complain: (error: Error | null) => void;
  onPublished: () => void;
};

/** Draws nothing while the draft changes nothing. */
export function DraftBar({ app, workspace, edits, complain, onPublished }: DraftProps) {
  const [diff, setDiff] = useState<DraftDiff | null>(null);
  const [findings, setFindings] = useState<readonly Finding[]>([]);
  const [tag, setTag] = useState<string | null>(null);
  const [isShowing, setShowing] = useState(false);
  const [isPublishing, setPublishing] = useState(false);
  const said = useRef<HTMLSpanElement>(null);
  const asked = useRef(0);

  const read = async () => {
    const number = ++asked.current;
    try {
      const now = await readDiff(app, workspace);
      if (number !== asked.current) return;
      setDiff(now);
      const found = now.files.length === 0 ? [] : await checkDraft(app, workspace);
      if (number === asked.current) setFindings(found);
    } catch (error) {
      if (number === asked.current) complain(error as Error);
    }
  };
  useEffect(() => {
    const timer = setTimeout(() => void read(), edits === 0 ? 0 : SETTLE_MS);
    return () => clearTimeout(timer);
  }, [workspace, edits]);
  useEffect(() => setTag(null), [edits]);
  // The button that had the focus has gone.
  useEffect(() => {
    if (tag !== null && document.activeElement === document.body) said.current?.focus();
  }, [tag]);

  const begin = async () => {
    complain(null);
    setPublishing(true);
    try {
      const published = await keeping(publish(workspace, { app }));
      showMinted(app, published.webhooks);
      await read();
      setTag(published.tag);
      onPublished();
    } catch (error) {
      complain(error as Error);
    } finally {
      setPublishing(false);
    }
  };

  if (diff === null || (diff.files.length === 0 && tag === null)) return null;
  return (
    <div class="chat-draft">
      {tag === null && <Brought texts={broughtBy(diff)} />}
      {tag === null && findings.length > 0 && (
        <>
          <p role="status">
            {findings.every(({ isWarning }) => isWarning)
              ? 'This may be a mistake:'
              : 'This keeps the draft from running, or from being published:'}
          </p>
          <FindingList
            findings={findings}
            onOpen={({ file, line, column }) =>
              go(hrefOf(['apps', app, 'code'], { session: workspace, file, line, column }))
            }
          />
        </>
      )}
      <div class="line">
        <span ref={said} class="chat-changes" role="status" tabindex={-1}>
          {tag === null ? (
            <>
              <a href={hrefOf(['apps', app, 'code'], { session: workspace })}>{plural(diff.files.length, 'file')}</a>{' '}
              changed, not published
            </>
          ) : (
            <>
              <a href={hrefOf(['apps', app, 'code'], { show: 'versions' })}>{tag}</a> is live
            </>
          )}
        </span>
        {tag === null && (
          <>
            <Button class="small" onClick={() => setShowing(true)}>
              Show changes
            </Button>
            <Button class="small" kind="primary" disabled={isPublishing} onClick={() => void begin()}>
              Publish
            </Button>
          </>
        )}
      </div>
      {isShowing && (
        <Dialog title="Changes of the draft" wide onClose={() => setShowing(false)}>
          <FileDiffs files={diff.files} />
        </Dialog>
      )}
    </div>
  );
}
