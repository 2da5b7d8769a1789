// Types by names and endings by types: both ways, whatever the case, and nothing for what is not known.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endingOf, mediaTypeOf } from './media-types.ts';

test('the ending of a name says its type', () => {
  assert.equal(mediaTypeOf('photo.JPG'), 'image/jpeg');
  assert.equal(mediaTypeOf('/a.b/notes.tar.gz'), 'application/gzip');
  for (const name of ['', 'photo', 'photo.', 'x.constructor', '.hidden/photo', 'x.unknown'])
    assert.equal(mediaTypeOf(name), undefined, name);
});

test('a type has its usual ending, with parameters or not', () => {
  assert.equal(endingOf('image/jpeg'), '.jpg');
  assert.equal(endingOf('Text/HTML; charset=utf-8'), '.html');
  assert.equal(endingOf('text/plain'), '.txt');
  for (const type of ['', 'application/octet-stream', 'constructor']) assert.equal(endingOf(type), '', type);
});
