/** Names a draft: says what it is called, and gives it another name. */
import { useState } from 'preact/hooks';
import { gateway } from '../../gateway.ts';
import { Button, Dialog, Field, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import type { WorkspaceRow } from './code-workspace.ts';

/** As `LIMITS.workspaceNameChars`. */
const MOST = 80;

/** Its name; of one without a name its id, which does not say that it is a draft. */
export function draftTitle({ sessionId, name }: Pick<WorkspaceRow, 'sessionId' | 'name'>): string {
  return name === sessionId ? `Draft ${sessionId}` : name;
}

/** A button that opens a form for the name. */
export function RenameDraft({
  workspace,
  name,
  onRenamed,
}: {
  workspace: string;
  name: string;
  onRenamed: () => void;
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button kind="plain" class="small" onClick={() => setOpen(true)}>
        Draft name…
      </Button>
      {isOpen && <Form {...{ workspace, name, onRenamed }} onClose={() => setOpen(false)} />}
    </>
  );
}

type FormProps = { workspace: string; name: string; onRenamed: () => void; onClose: () => void };

function Form({ workspace, name, onRenamed, onClose }: FormProps) {
  const [text, setText] = useState(name);
  const { isBusy, error, run } = useWork();
  const rename = async (event: Event) => {
    event.preventDefault();
    const sent = { params: { sid: workspace }, body: { name: text.trim() } };
    if (!(await run(() => gateway.call('PATCH /svc/_sessions/:sid', sent)))) return;
    onRenamed();
    onClose();
  };
  return (
    <Dialog title="Name of this draft" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void rename(event)}>
        <Field label="Name" hint={`On the command line it is ${workspace}.`}>
          <input
            value={text}
            maxLength={MOST}
            required
            autoFocus
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </Field>
        <Problem error={error} />
        <div class="line end">
          <Button kind="primary" type="submit" disabled={isBusy || text.trim() === ''}>
            Save the name
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
