/** Shows the photos, and takes new ones that are dropped, pasted or chosen. */
import { $, el, reader, redraw } from './ui.js';
import { addFiles } from './uploads.js';
import { openPhoto, setPhotos } from './viewer.js';

const { svc } = window;
const PAGE = 60;
const MOST = 1000;

let limit = PAGE;
/** By id, so that a picture that is shown is not loaded again. */
const tiles = new Map();

const refresh = reader(async () => {
  const { total, photos } = await svc.read({ query: 'list', input: { limit } });
  $('count').textContent = total === 0 ? '' : total === 1 ? '1 photo' : `${total} photos`;
  $('empty').hidden = total > 0;
  $('more').hidden = photos.length >= total || limit >= MOST;
  redraw($('photos'), photos.map(tileOf), $('files'));
  for (const id of tiles.keys()) if (!photos.some((photo) => photo.id === id)) tiles.delete(id);
  setPhotos(photos);
});

function tileOf(photo) {
  let tile = tiles.get(photo.id);
  if (tile === undefined) {
    const image = el('img', { src: svc.url(`_blobs/${photo.thumbnail}`), alt: '', loading: 'lazy', decoding: 'async' });
    const button = el('button', { type: 'button', className: 'photo', 'data-focus': photo.id }, image, el('span'));
    tile = el('li', {}, button);
    tiles.set(photo.id, tile);
  }
  const [button] = tile.children;
  button.setAttribute('aria-label', photo.caption || photo.name);
  button.lastElementChild.textContent = photo.caption;
  button.onclick = () => openPhoto(photo);
  return tile;
}

$('more').addEventListener('click', () => {
  limit = Math.min(limit + PAGE, MOST);
  void refresh();
});

$('files').addEventListener('change', ({ target }) => {
  addFiles([...target.files]);
  target.value = '';
});
addEventListener('paste', ({ clipboardData }) => addFiles([...clipboardData.files]));

/** A drag enters each element on its way, and leaves it. */
let depth = 0;
const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
addEventListener('dragenter', (event) => {
  if (!hasFiles(event)) return;
  depth++;
  $('drop').hidden = false;
});
addEventListener('dragleave', (event) => {
  if (!hasFiles(event)) return;
  depth--;
  $('drop').hidden = depth <= 0;
});
addEventListener('dragover', (event) => {
  if (hasFiles(event)) event.preventDefault();
});
addEventListener('drop', (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  depth = 0;
  $('drop').hidden = true;
  addFiles([...event.dataTransfer.files]);
});

svc.onChange(refresh);
void refresh();
