/** One file, looked at: images, sound, video and the beginning of texts; the rest is downloaded. */
import { requestOf } from '../../../protocol/http/client.ts';
import { essenceOf } from '../../../protocol/http/media-types.ts';
import { hrefOf } from '../../address.ts';
import { signedAddress } from '../../bridge/page-key.ts';
import { GatewayError, gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { Button, CopyButton, Dialog, Facts, Loading, Problem } from '../../ui/parts.tsx';
import { ago, bytes, clock } from '../../words.ts';
import { type AppDetail, toolsIn } from '../views.ts';
import { addressOfFile, calledOf, type KeptFile, nameOf, shortName } from './file-names.ts';
import { UseLinks } from './use-links.tsx';
import { toolsOf, type Use, useUses } from './uses.ts';

const TEXT_BYTES = 64 * 1024;
const TEXT = /^(?:text\/|application\/(?:json|xml|yaml|x-ndjson|javascript)$|application\/[\w.-]+\+(?:json|xml)$)/;

type Props = { app: AppDetail; sha256: string; onDelete: (row: KeptFile) => void; onClose: () => void };

export function Preview({ app, sha256, onDelete, onClose }: Props) {
  const load = async (signal: AbortSignal) => {
    const sent = { params: { id: app.id }, query: { prefix: sha256, limit: 1 } };
    const [row] = (await gateway.call('GET /svc/:id/_blobs', sent, { signal })).files;
    if (row === undefined)
      throw new GatewayError(404, {
        code: 'UNKNOWN_BLOB',
        message: 'There is no such file; it may have been deleted.',
      });
    return row;
  };
  const { value: row, error } = usePolled(load, `${app.id} ${sha256}`, 0);
  const found = useUses(app.id, [sha256], { isWithin: true });
  const uses = found?.get(sha256) ?? [];
  return (
    <Dialog title={`File ${calledOf(uses) ?? shortName(sha256)}`} onClose={onClose} wide>
      <Problem error={error} />
      {row ? (
        <div class="stack">
          <Content app={app.id} row={row} />
          <Facts
            facts={[
              ['Type', row.type],
              ['Size', bytes(row.size)],
              ['Stored', <span title={clock(row.storedAt)}>{ago(row.storedAt)}</span>],
            ]}
          />
          {found && <UsedBy app={app} sha256={sha256} uses={uses} />}
          <p class="line">
            <code class="row-name">{sha256}</code>
            <CopyButton text={sha256} label="Copy SHA-256" />
          </p>
          <div class="line end sticky-end">
            <Button kind="danger" onClick={() => onDelete(row)}>
              Delete…
            </Button>
            <a class="button primary" href={signedAddress(addressOfFile(app.id, sha256))} download={nameOf(row, uses)}>
              Download
            </a>
          </div>
        </div>
      ) : (
        !error && <Loading />
      )}
    </Dialog>
  );
}

/** The rows that name it, and the tools that work with their tables. */
function UsedBy({ app, sha256, uses }: { app: AppDetail; sha256: string; uses: readonly Use[] }) {
  if (uses.length === 0) return <p class="hint">No row of the app’s tables names it.</p>;
  const tools = toolsOf(toolsIn(app), uses);
  return (
    <p>
      Used by <UseLinks app={app.id} sha256={sha256} uses={uses} />
      {tools.length > 0 && (
        <span class="hint">
          {'; tools that work with it: '}
          {tools.map(({ kind, name }, at) => [
            at > 0 && ', ',
            <a key={`${kind} ${name}`} href={hrefOf(['apps', app.id, 'tools'], { [kind]: name })}>
              {name}
            </a>,
          ])}
        </span>
      )}
    </p>
  );
}

type ContentProps = { app: string; row: KeptFile };

function Content({ app, row }: ContentProps) {
  const { sha256, type, size } = row;
  const essence = essenceOf(type);
  const src = signedAddress(addressOfFile(app, sha256));
  if (size === 0) return <p class="none">The file is empty.</p>;
  if (essence.startsWith('image/')) return <img class="file-shown" src={src} alt="What the file shows" />;
  // biome-ignore lint/a11y/useMediaCaption: nobody has written any.
  if (essence.startsWith('video/')) return <video class="file-shown" src={src} controls preload="metadata" />;
  // biome-ignore lint/a11y/useMediaCaption: nobody has written any.
  if (essence.startsWith('audio/')) return <audio class="file-sound" src={src} controls preload="metadata" />;
  if (TEXT.test(essence)) return <TextContent app={app} row={row} />;
  return <p class="none">There is no preview of this type. Download the file to look at it.</p>;
}

/** As text, whatever it is: nothing of it runs. */
function TextContent({ app, row: { sha256, size } }: ContentProps) {
  const load = async (signal: AbortSignal) => {
    const headers = { range: `bytes=0-${TEXT_BYTES - 1}` };
    const request = requestOf('GET /svc/:id/_blobs/:sha256', { params: { id: app, sha256 } }, { headers, signal });
    return (await gateway.open(request)).text();
  };
  const { value: text, error, reload } = usePolled(load, `${app} ${sha256}`, 0);
  if (text === undefined) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and the keyboard has to reach it. */}
      <section class="file-text" tabIndex={0} aria-label="Text of the file">
        <pre>{text}</pre>
      </section>
      {size > TEXT_BYTES && <p class="hint">The first {bytes(TEXT_BYTES)}. Download the file for all of it.</p>}
    </>
  );
}
