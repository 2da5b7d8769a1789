/** Shows a link that is to be sent to somebody, once. */
import type { Mailed } from '../../protocol/routes/people/pieces.ts';
import { CopyField } from '../ui/copy.tsx';
import { Dialog } from '../ui/parts.tsx';

export type Made = { url: string; mailed?: Mailed };

type LinkDialogProps = Made & { title: string /** What else there is to know. */; hint?: string; onClose: () => void };

export function LinkDialog({ title, url, mailed = null, hint, onClose }: LinkDialogProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">
        <p>{wordsOf(mailed)} It is shown only now.</p>
        <CopyField name="Link" value={url} of={title} />
        {hint && <p class="hint">{hint}</p>}
      </div>
    </Dialog>
  );
}

function wordsOf(mailed: Mailed): string {
  if (mailed === null) return 'Send this link to them.';
  if (mailed.problem === null) return `This link was mailed to ${mailed.to}.`;
  return `This link could not be mailed to ${mailed.to}: ${mailed.problem} Send it to them yourself.`;
}
