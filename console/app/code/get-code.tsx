/** Gets the code of an app out of the console: the folder of a draft in an editor, the command that pulls it, an archive. */
import { requestOf } from '../../../protocol/http/client.ts';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { CopyField } from '../../ui/copy.tsx';
import { download } from '../../ui/download.ts';
import { Button, Dialog, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import { readFolder, type Source } from './code-workspace.ts';

/** Editors that open a folder by an address of their own. */
const EDITORS = [
  { name: 'VS Code', scheme: 'vscode' },
  { name: 'Cursor', scheme: 'cursor' },
  { name: 'Zed', scheme: 'zed' },
];

/** `version` is the one that is downloaded. */
type CodeProps = { source: Source; version: string; onClose: () => void };

export function GetCode({ source, version, onClose }: CodeProps) {
  const { app, workspace } = source;
  const load = async () => (workspace === null ? null : await readFolder(app, workspace));
  const { value: folder } = usePolled(load, `${app} ${workspace}`, 0);
  const { isBusy, error, run } = useWork();
  const name = `${app}-${version.slice(version.indexOf('/') + 1)}.tgz`;
  const save = () =>
    run(async () => {
      const params = { id: app, versionId: version };
      const archive = await gateway.open(requestOf('GET /svc/_apps/:id/versions/:versionId/archive', { params }));
      download(await archive.blob(), name);
    });
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
        <p>Or download {version} as an archive.</p>
        <Problem error={error} />
        <div class="line end">
          <Button kind="primary" disabled={isBusy} onClick={() => void save()}>
            Download {name}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
