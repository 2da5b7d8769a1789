/** One photo at a time, with its caption. */
import { $, confirmed, say } from './ui.js';

const { svc } = window;
let photos = [];
let shown = null;

/** The photos that it goes through. One that was removed elsewhere is not shown any longer. */
export function setPhotos(list) {
  photos = list;
  if (shown === null) return;
  const now = photos.find(({ id }) => id === shown.id);
  if (now === undefined) $('viewer').close();
  else draw(now, !isWritten());
}

export function openPhoto(photo) {
  draw(photo, true);
  $('viewer').showModal();
}

function draw(photo, withCaption) {
  shown = photo;
  const at = photos.findIndex(({ id }) => id === photo.id);
  const address = svc.url(`_blobs/${photo.file}`);
  if (!$('photo').src.endsWith(address)) $('photo').src = address;
  $('photo').alt = photo.caption || photo.name;
  $('photo-name').textContent = photo.name;
  if (withCaption) {
    $('caption').value = photo.caption;
    // What it is reset to is what is stored, so that it is seen whether something was written.
    $('caption').defaultValue = photo.caption;
    $('caption-problem').hidden = true;
  }
  $('download').href = address;
  $('download').download = photo.name;
  $('previous').disabled = photos[at - 1] === undefined;
  $('next').disabled = photos[at + 1] === undefined;
}

const isWritten = () => $('caption').value.trim() !== shown.caption;

/** What was written is stored before another photo takes its place. False when that failed: then it stays. */
async function save() {
  if (!isWritten()) return true;
  return await run(async ({ id }) => {
    draw(await svc.write({ action: 'update', input: { id, caption: $('caption').value.trim() } }), true);
    say('The caption was saved.');
  });
}

async function go(by) {
  if (!(await save())) return;
  const other = photos[photos.findIndex(({ id }) => id === shown.id) + by];
  if (other !== undefined) draw(other, true);
}

async function close() {
  if (await save()) $('viewer').close();
}

$('previous').addEventListener('click', () => go(-1));
$('next').addEventListener('click', () => go(1));
$('close').addEventListener('click', close);
$('viewer').addEventListener('cancel', (event) => {
  if (!isWritten()) return;
  event.preventDefault();
  void close();
});
$('viewer').addEventListener('close', () => {
  shown = null;
  $('photo').removeAttribute('src');
});
$('viewer').addEventListener('keydown', (event) => {
  if (event.target === $('caption')) return;
  if (event.key === 'ArrowLeft') void go(-1);
  if (event.key === 'ArrowRight') void go(1);
});

$('caption-form').addEventListener('submit', (event) => {
  event.preventDefault();
  void save();
});

$('remove').addEventListener('click', () =>
  run(async ({ id, name }) => {
    if (!(await confirmed(`Remove “${name}”? Its file is deleted.`))) return;
    await svc.write({ action: 'remove', input: { id } });
    $('viewer').close();
  }),
);

/** Whether it worked. What fails is said beside the caption, which stays as it was written. */
async function run(work) {
  const problem = $('caption-problem');
  problem.hidden = true;
  try {
    await work(shown);
    return true;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    return false;
  }
}
