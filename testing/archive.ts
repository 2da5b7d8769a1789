/** Builds gzipped tar archives for tests byte by byte, the broken and hostile ones too. */
import { deflateRawSync, gzipSync } from 'node:zlib';

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

/** `mode` is that of Unix, with the type of the entry; `size` what the entry says of its content, and `name` may end in `/`. */
export type ZipEntry = { name: string; content?: string | Buffer; mode?: number; size?: number; flags?: number };

/** A zip archive of files by name, or of entries in their order; everything in it is compressed. */
export function zipOf(entries: Record<string, string | Buffer> | ZipEntry[]): Buffer {
  const list = Array.isArray(entries) ? entries : Object.entries(entries).map(([name, content]) => ({ name, content }));
  const locals: Buffer[] = [];
  const central: Buffer[] = [];
  let at = 0;
  for (const { name, content = '', mode = 0, size, flags = 0 } of list as ZipEntry[]) {
    const body = Buffer.from(content);
    const packed = deflateRawSync(body);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x800 | flags, 2);
    common.writeUInt16LE(8, 4);
    common.writeUInt32LE(crcOf(body), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(size ?? body.length, 18);
    common.writeUInt16LE(Buffer.byteLength(name), 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE((mode << 16) >>> 0, 6);
    tail.writeUInt32LE(at, 10);
    central.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x03'), common, tail, Buffer.from(name)]));
    locals.push(local);
    at += local.length;
  }
  const index = Buffer.concat(central);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 0, 'latin1');
  end.writeUInt16LE(list.length, 8);
  end.writeUInt16LE(list.length, 10);
  end.writeUInt32LE(index.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...locals, index, end]);
}

/** CRC-32 as zip has it; that of `node:zlib` is missing in Node 20. */
function crcOf(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
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
