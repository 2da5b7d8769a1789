/** Uploads photos, a few at a time. Each that is under way, or failed, has a row with its progress; a failed one can be tried again. */
import { thumbnailOf } from './thumbnails.js';
import { $, el, say } from './ui.js';

const { svc } = window;
const AT_ONCE = 3;

const waiting = [];
let running = 0;

export function addFiles(files) {
  for (const file of files) start(file);
}

function start(file) {
  const stop = new AbortController();
  const progress = el('progress', { max: 1, value: 0, 'aria-label': `Upload of ${file.name}` });
  const problem = el('p', { className: 'problem', role: 'alert', hidden: true });
  const again = el('button', { type: 'button', className: 'quiet', textContent: 'Try again', hidden: true });
  const cancel = el('button', { type: 'button', className: 'quiet', textContent: 'Cancel' });
  const name = el('b', { textContent: file.name });
  const row = el('li', { className: 'upload card' }, name, progress, problem, el('div', {}, again, cancel));
  $('uploads').append(row);
  $('uploads').hidden = false;
  const close = () => {
    row.remove();
    $('uploads').hidden = $('uploads').children.length === 0;
  };
  cancel.addEventListener('click', () => {
    stop.abort();
    close();
  });
  again.addEventListener('click', () => {
    close();
    start(file);
  });
  waiting.push(async () => {
    if (stop.signal.aborted) return;
    try {
      await store(file, (done) => (progress.value = done), stop.signal);
      say(`${file.name} was added.`);
      close();
    } catch (error) {
      if (stop.signal.aborted) return;
      problem.textContent = error.message;
      problem.hidden = false;
      progress.hidden = true;
      again.hidden = false;
      cancel.textContent = 'Dismiss';
    }
  });
  next();
}

// Photos that were not stored are nowhere but here.
addEventListener('beforeunload', (event) => {
  if ($('uploads').children.length > 0) event.preventDefault();
});

function next() {
  if (running >= AT_ONCE || waiting.length === 0) return;
  running++;
  waiting
    .shift()()
    .finally(() => {
      running--;
      next();
    });
}

async function store(file, onProgress, signal) {
  if (!file.type.startsWith('image/')) throw new Error(`“${file.name}” is no image.`);
  const { width, height, thumbnail } = await thumbnailOf(file);
  const stored = await svc.upload(file, { onProgress, signal });
  const small = thumbnail === null ? stored : await svc.upload(thumbnail, { signal });
  const input = { file: stored.sha256, thumbnail: small.sha256, name: file.name || 'Photo', width, height };
  await svc.write({ action: 'add', input });
}
