/** Files on their way to the gateway: one after the other, with their progress, and why one was refused. */
import { useRef, useState } from 'preact/hooks';
import { mediaTypeOf } from '../../../protocol/http/media-types.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { gateway } from '../../gateway.ts';
import { Button, CopyButton } from '../../ui/parts.tsx';
import { bytes, plural } from '../../words.ts';

type Upload = {
  id: number;
  name: string;
  size: number;
  state: 'waiting' | 'sending' | 'stored' | 'refused';
  /** From 0 to 1. */
  done: number;
  /** Of a stored one. */
  sha256?: string;
  /** Why it was refused. */
  problem?: string;
};

type Usage = { bytes: number; quota: number } | undefined;

let lastId = 0;

/** `usage` is what the app has stored by now; `onStored` is called when one more is. */
export function useUploads(app: string, usage: Usage, onStored: () => void) {
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const running = useRef<AbortController | null>(null);
  const waiting = useRef<{ id: number; file: File }[]>([]);
  const known = useRef(usage);
  known.current = usage ?? known.current;

  const change = (id: number, changed: Partial<Upload>) =>
    setUploads((all) => all.map((one) => (one.id === id ? { ...one, ...changed } : one)));

  const work = async () => {
    if (running.current) return;
    for (let next = waiting.current.shift(); next; next = waiting.current.shift()) {
      const { id, file } = next;
      const stop = new AbortController();
      running.current = stop;
      try {
        checkRoom(file, known.current);
        change(id, { state: 'sending' });
        const { sha256 } = await send(app, file, (done) => change(id, { done }), stop.signal);
        change(id, { state: 'stored', done: 1, sha256 });
        onStored();
      } catch (error) {
        change(id, { state: 'refused', problem: (error as Error).message });
      }
    }
    running.current = null;
  };

  const add = (files: readonly File[], folders = 0) => {
    const added = files.map((file) => ({ id: ++lastId, file }));
    const refused = Array.from({ length: folders }, (): Upload => {
      const problem = 'A folder cannot be stored: drop the files in it.';
      return { id: ++lastId, name: 'Folder', size: 0, state: 'refused', done: 0, problem };
    });
    waiting.current.push(...added);
    setUploads((all) => [
      ...all.filter(({ state }) => state === 'waiting' || state === 'sending'),
      ...added.map(({ id, file: { name, size } }): Upload => ({ id, name, size, state: 'waiting', done: 0 })),
      ...refused,
    ]);
    void work();
  };
  /** Those that wait or are sent are given up. */
  const clear = () => {
    waiting.current = [];
    running.current?.abort();
    setUploads([]);
  };
  return { uploads, add, clear };
}

/** Before the first byte: a gateway that refuses one may close the connection before its answer can be read. */
function checkRoom({ size }: File, usage: Usage): void {
  if (size > LIMITS.blobBytes)
    throw new Error(`It has ${bytes(size)}; a file may have at most ${bytes(LIMITS.blobBytes)}.`);
  if (usage && usage.bytes + size > usage.quota)
    throw new Error(
      `${bytes(size)} do not fit: the files have ${bytes(usage.bytes)} of ${bytes(usage.quota)}. Delete some, or raise "blobQuotaMb" in app.json.`,
    );
}

function send(id: string, file: File, onProgress: (done: number) => void, signal: AbortSignal) {
  const type = file.type || mediaTypeOf(file.name) || 'application/octet-stream';
  const onSent = (sent: number) => onProgress(file.size === 0 ? 1 : sent / file.size);
  const options = { headers: { 'content-type': type }, onSent, signal };
  return gateway.call('PUT /svc/:id/_blobs', { params: { id }, body: file }, options);
}

type Props = { uploads: readonly Upload[]; clear: () => void; hrefOfFile: (sha256: string) => string };

export function Uploads({ uploads, clear, hrefOfFile }: Props) {
  if (uploads.length === 0) return null;
  const open = uploads.filter(({ state }) => state === 'waiting' || state === 'sending').length;
  const refused = uploads.filter(({ state }) => state === 'refused').length;
  const said = open > 0 ? `${plural(open, 'file')} to go` : refused > 0 ? `${refused} not stored` : 'All stored';
  return (
    <section class="card uploads" aria-label="Uploads">
      <header class="card-head">
        <h2>Uploads</h2>
        <span class="line">
          <span class="hint" role="status">
            {said}
          </span>
          <Button class="small" onClick={clear}>
            {open > 0 ? 'Stop' : 'Done'}
          </Button>
        </span>
      </header>
      <ul class="rows">
        {uploads.map(({ id, name, size, state, done, sha256, problem }) => (
          <li key={id}>
            <span class="row-name">{name}</span>
            {size > 0 && <span class="hint">{bytes(size)}</span>}
            {state === 'waiting' && <span class="hint">waiting</span>}
            {state === 'sending' && <progress aria-label={`Progress of ${name}`} max={1} value={done} />}
            {problem && (
              <span class="problem" role="alert">
                {problem}
              </span>
            )}
            {sha256 && (
              <span class="row-acts">
                <a class="button small" href={hrefOfFile(sha256)} aria-label={`Show ${name}`}>
                  Show
                </a>
                <CopyButton text={sha256} label="Copy SHA-256" />
              </span>
            )}
          </li>
        ))}
      </ul>
      <p class="hint">
        Files are stored under their SHA-256, without their names. The app’s tables say what each one is.
      </p>
    </section>
  );
}
