/** Builds gzipped tar archives for tests byte by byte, the broken and hostile ones too. */
import { gzipSync } from 'node:zlib';

const BLOCK = 512;

/** `type` is tar's flag: `0` file, `5` folder, `1` hard link, `2` symbolic link, `3` device, `6` pipe, `x` pax, `L` long name. */
export type Entry = { name: string; content?: string | Buffer; type?: string; link?: string; size?: number };

/** Files by name, or entries in their order. */
export function tarball(entries: Record<string, string | Buffer> | Entry[]): Buffer {
  return gzipSync(tar(entries), { level: 1 });
}

export function tar(entries: Record<string, string | Buffer> | Entry[]): Buffer {
  const list = Array.isArray(entries) ? entries : Object.entries(entries).map(([name, content]) => ({ name, content }));
  return Buffer.concat([...list.map(tarEntry), Buffer.alloc(2 * BLOCK)]);
}

export function tarEntry({ name, content = '', type = '0', link = '', size }: Entry): Buffer {
  const body = Buffer.from(content);
  const header = Buffer.alloc(BLOCK);
  header.write(name, 0, 100);
  header.write('0000644\0', 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write(`${(size ?? body.length).toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write(' '.repeat(8), 148);
  header.write(type, 156);
  header.write(link, 157, 100);
  header.write('ustar\x0000', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, body, Buffer.alloc((BLOCK - (body.length % BLOCK)) % BLOCK)]);
}

/** A pax header that gives the entry after it a name of any length. */
export function paxName(name: string): Entry {
  const record = ` path=${name}\n`;
  let length = Buffer.byteLength(record);
  while (length !== Buffer.byteLength(`${length}${record}`)) length = Buffer.byteLength(`${length}${record}`);
  return { name: 'PaxHeader/x', type: 'x', content: `${length}${record}` };
}

/** GNU tar's header for the same. */
export function gnuName(name: string): Entry {
  return { name: '././@LongLink', type: 'L', content: `${name}\0` };
}

/** The files of a small complete app, which tests change as they need. */
export function appFiles(id: string, manifest: Record<string, unknown> = {}): Record<string, string> {
  return {
    'app.json': JSON.stringify({ id, name: 'Notes', version: '1.0.0', ...manifest }),
    'index.html': '<!doctype html><title>Notes</title>',
  };
}
