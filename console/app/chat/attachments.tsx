/** Files that go with the next message: chosen, pasted or dropped, uploaded at once, and listed until it is sent. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { addressOf } from '../../../protocol/http/client.ts';
import { signedAddress } from '../../bridge/page-key.ts';
import { gateway } from '../../gateway.ts';
import { Button } from '../../ui/parts.tsx';
import type { AttachedFile } from './conversations.ts';

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;
const MOST = 16;
const MOST_BYTES = 25 * 2 ** 20;
/** What a file is judged by that does not say that it is a text. */
const HEAD_BYTES = 64 * 1024;

/** `uploaded` resolves with null when it fails. */
type Chosen = { id: number; name: string; uploaded: Promise<AttachedFile | null> };

export type Attachments = {
  chosen: readonly Chosen[];
  add(files: Iterable<File>): void;
  drop(file: Chosen): void;
  clear(): void;
  /** All of them, once they are uploaded; null when one cannot be. */
  uploaded(): Promise<AttachedFile[] | null>;
};

let count = 0;

/** `isAllowed`: messages of this conversation take files. `complain` is called with an error, with null before something is tried. */
export function useAttachments(app: string, isAllowed: boolean, complain: (error: Error | null) => void): Attachments {
  const [chosen, setChosen] = useState<readonly Chosen[]>([]);
  const latest = useRef(chosen);
  const set = (files: readonly Chosen[]) => {
    latest.current = files;
    setChosen(files);
  };
  const drop = (file: Chosen) => set(latest.current.filter((other) => other !== file));
  const add = (files: Iterable<File>) => {
    if (!isAllowed) return complain(new Error('Only conversations about data and code take files.'));
    complain(null);
    for (const file of files) {
      if (latest.current.length === MOST) return complain(new Error(`A message takes at most ${MOST} files.`));
      const uploaded = upload(app, file).catch((error: Error) => {
        drop(one);
        complain(error);
        return null;
      });
      const one: Chosen = { id: ++count, name: file.name, uploaded };
      set([...latest.current, one]);
    }
  };
  const clear = () => set([]);
  useEffect(() => {
    if (!isAllowed) clear();
  }, [isAllowed]);
  const uploaded = async () => {
    const files = await Promise.all(latest.current.map((file) => file.uploaded));
    return files.includes(null) ? null : (files as AttachedFile[]);
  };
  return { chosen, add, drop, clear, uploaded };
}

/** Those that go with the next message; `onDropped` is called when one was taken away. */
export function ChosenFiles({ attachments, onDropped }: { attachments: Attachments; onDropped: () => void }) {
  if (attachments.chosen.length === 0) return null;
  return (
    <ul class="files" aria-label="Files that go with the message">
      {attachments.chosen.map((file) => (
        <li key={file.id}>
          {file.name}
          <Button
            kind="link"
            aria-label={`Remove ${file.name}`}
            onClick={() => {
              attachments.drop(file);
              onDropped();
            }}
          >
            ✕
          </Button>
        </li>
      ))}
    </ul>
  );
}

/** The names of a message's attachments, as links to them. */
export function AttachmentLinks({ app, files }: { app: string; files: readonly AttachedFile[] }) {
  return (
    <ul class="files">
      {files.map(({ sha256, name }, at) => (
        // A file may be there twice, and none moves.
        <li key={at}>
          <a href={signedAddress(attachmentAddress(app, sha256))} download={name}>
            {name}
          </a>
        </li>
      ))}
    </ul>
  );
}

const attachmentAddress = (id: string, sha256: string): string =>
  addressOf('GET /_svc-conversations/apps/:id/blobs/:sha256', { params: { id, sha256 } });

async function upload(app: string, file: File): Promise<AttachedFile> {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} is larger than 25 MiB.`);
  const type = IMAGE.test(file.type) ? file.type : await textTypeOf(file);
  const sent = { params: { id: app }, body: file };
  const headers = { 'content-type': type };
  const { sha256 } = await gateway.call('POST /_svc-conversations/apps/:id/blobs', sent, { headers });
  return { sha256, name: file.name };
}

/** Browsers do not know the types of many texts. Rejects for what is none. */
async function textTypeOf(file: File): Promise<string> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.slice(0, HEAD_BYTES).arrayBuffer(), {
      stream: true,
    });
    if (!text.includes('\0')) return file.type.startsWith('text/') ? file.type : 'text/plain';
  } catch {}
  throw new Error(`${file.name}: agents take images (PNG, JPEG, GIF, WebP) and texts in UTF-8.`);
}
