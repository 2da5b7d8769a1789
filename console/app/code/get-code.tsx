/** Gets the code of an app out of the console: the folder of a draft in an editor, and the command that pulls it. */
import { usePolled } from '../../polled.ts';
import { CopyField } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/parts.tsx';
import { readFolder, type Source } from './session.ts';

/** Editors that open a folder by an address of their own. */
const EDITORS = [
  { name: 'VS Code', scheme: 'vscode' },
  { name: 'Cursor', scheme: 'cursor' },
  { name: 'Zed', scheme: 'zed' },
];

type CodeProps = { source: Source; onClose: () => void };

export function GetCode({ source, onClose }: CodeProps) {
  const { app, session } = source;
  const load = async () => (session === null ? null : await readFolder(app, session));
  const { value: folder } = usePolled(load, `${app} ${session}`, 0);
  return (
    <Dialog title="Get the code" onClose={onClose}>
      <div class="stack">
        {folder && (
          <>
            <p>Edit this draft with an editor on this machine. What you save there is in the draft at once.</p>
            <p class="line">
              {EDITORS.map(({ name, scheme }) => (
                <a
                  key={scheme}
                  class="button plain small"
                  href={`${scheme}://file${folder.split('/').map(encodeURIComponent).join('/')}/`}
                >
                  {name}
                </a>
              ))}
            </p>
            <CopyField name="Folder" value={folder} of="the draft" />
          </>
        )}
        <p>
          Pull the live version into a folder that <code>svc dev</code> and <code>svc publish</code> know:
        </p>
        <CopyField name="Command" value={`svc pull ${app}`} of="the app" />
      </div>
    </Dialog>
  );
}
