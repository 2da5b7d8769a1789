/** Encodes pictures as PNG (ISO/IEC 15948). Pure. */
import { crc32, deflateSync } from 'node:zlib';
import type { Picture } from './svg.ts';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const BITS = 8;
const RGBA = 6;

/** Without filters: pictures of few colours are smaller so, and made in a fifth of the time. */
export function encodePng({ size, pixels }: Picture): Buffer {
  const row = size * 4;
  const straight = withStraightAlpha(pixels);
  const lines = Buffer.alloc((row + 1) * size);
  for (let y = 0; y < size; y++) lines.set(straight.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size, 0);
  header.writeUInt32BE(size, 4);
  header.set([BITS, RGBA], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(lines)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Colours of premultiplied pixels are those of the picture times its opacity; PNG has them as they are. */
function withStraightAlpha(pixels: Uint8Array): Uint8ClampedArray {
  const straight = new Uint8ClampedArray(pixels);
  for (let at = 0; at < straight.length; at += 4) {
    const alpha = straight[at + 3] as number;
    if (alpha === 0 || alpha === 255) continue;
    for (let channel = at; channel < at + 3; channel++)
      straight[channel] = ((straight[channel] as number) * 255) / alpha;
  }
  return straight;
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const framed = Buffer.alloc(named.length + 8);
  framed.writeUInt32BE(data.length, 0);
  framed.set(named, 4);
  framed.writeUInt32BE(crc32(named), named.length + 4);
  return framed;
}
