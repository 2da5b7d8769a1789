// Archives arrive in chunks that end anywhere; the rules for what is in them are tested with `ingest`.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { after, test } from 'node:test';
import { paxName, tar } from '../../../testing/archive.ts';
import { Unpacking } from './archive.ts';

const root = mkdtempSync(join(tmpdir(), 'archive-'));
after(() => rmSync(root, { recursive: true, force: true }));

/** Characters of two, three and four bytes. */
const NAME = `${'é漢𝄞'.repeat(27)}.js`;

test('a long name is the same wherever the chunk with it ends', async () => {
  const { content, ...header } = paxName(NAME);
  // The parser takes a header of one block at once.
  const comment = `500 comment=${'x'.repeat(500 - '500 comment=\n'.length)}\n`;
  const archive = tar([
    { ...header, content: comment + content },
    { name: 'short.js', content: 'é' },
  ]);
  for (let end = 1; end < archive.length; end++) {
    const folder = mkdtempSync(join(root, 'target-'));
    const unpacking = new Unpacking(folder, false);
    unpacking.write(archive.subarray(0, end));
    unpacking.end(archive.subarray(end));
    await finished(unpacking);
    assert.deepEqual(
      unpacking.files.map(({ path, bytes }) => [path, bytes]),
      [[NAME, 2]],
      `the first chunk has ${end} bytes`,
    );
  }
});
