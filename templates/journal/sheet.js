/** The sheet: the text of one day, kept as it is typed. What somebody else wrote meanwhile is never written over unasked. */
import { $, say, toast, toastUnread } from './ui.js';

const { svc } = window;
const SAVE_AFTER_MS = 600;
const RETRY_AFTER_MS = 4000;
const PROMPTS = [
  'What made you smile today?',
  'What do you want to remember of today?',
  'Who did you think of?',
  'What was hard, and what helped?',
  'What did you notice on the way?',
  'What are you looking forward to?',
  'What would you tell yourself a year from now?',
];

/** What the gateway holds of the open day. */
let saved = { day: '', text: '', words: 0, updatedAt: 0 };
/** What the gateway holds instead of what this page saw last: the writer decides. */
let theirs = null;
let saving = Promise.resolve(true);
let underway = 0;
let reads = 0;
let timer;

const field = $('text');
const isDirty = () => field.value !== saved.text;
export const day = () => saved.day;

function showState(text) {
  const count = field.value.match(/\S+/gu)?.length ?? 0;
  const state = theirs ? 'Not saved' : isDirty() ? 'Writing…' : saved.updatedAt === 0 ? 'Kept as you type' : 'Saved';
  $('state').textContent = text ?? state;
  $('words').textContent = count === 1 ? '1 word' : `${count.toLocaleString()} words`;
  $('remove').hidden = saved.updatedAt === 0;
  $('changed').hidden = theirs === null;
}

/** Shows an entry, with the caret where it was. */
function showEntry(entry) {
  const { selectionStart, selectionEnd } = field;
  const sameDay = entry.day === saved.day;
  saved = entry;
  theirs = null;
  if (field.value !== entry.text) {
    field.value = entry.text;
    if (sameDay) field.setSelectionRange(selectionStart, selectionEnd);
  }
  field.placeholder = PROMPTS[Number(entry.day.slice(8)) % PROMPTS.length];
  field.readOnly = false;
  showState();
}

/** Saves what is not saved yet; resolves to whether all of it is. Saves follow one another. */
export function flush() {
  clearTimeout(timer);
  saving = saving.then(save);
  return saving;
}

async function save() {
  if (!isDirty()) return true;
  if (theirs) return false;
  const text = field.value;
  reads++;
  underway++;
  showState('Saving…');
  try {
    saved = { ...(await svc.write({ action: 'save', input: { day: saved.day, text, seen: saved.updatedAt } })), text };
    showState();
    if (isDirty()) later(SAVE_AFTER_MS);
    return !isDirty();
  } catch (error) {
    if (error.code === 'CHANGED') {
      theirs = error.body.entry;
      if (theirs.text === field.value) showEntry(theirs);
      else showState();
    } else {
      showState(`Not saved yet: ${error.message}`);
      // Without a connection or a workspace it is tried again when that is back.
      if (svc.status === 'online') later(RETRY_AFTER_MS);
    }
    return false;
  } finally {
    underway--;
  }
}

function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(flush, ms);
}

/** Goes to a day, once the one that is open is saved; resolves to whether it went. */
export async function openDay(to) {
  if (saved.day !== '' && !(await flush())) {
    toast('This day is not saved yet. Wait a moment, or decide whose text to keep.');
    return false;
  }
  const turn = ++reads;
  try {
    const entry = await svc.read({ query: 'entry', input: { day: to } });
    if (turn !== reads) return false;
    showEntry(entry);
    return true;
  } catch (error) {
    toast(error.message);
    return false;
  }
}

/** Takes over what was written elsewhere, unless there is something here that is not saved yet. */
export async function reload() {
  if (saved.day === '' || isDirty() || underway > 0) return;
  const turn = ++reads;
  try {
    const entry = await svc.read({ query: 'entry', input: { day: saved.day } });
    if (turn === reads && !isDirty() && entry.updatedAt !== saved.updatedAt) showEntry(entry);
  } catch (error) {
    toastUnread(error);
  }
}

export function keepMine() {
  saved = { ...theirs, day: saved.day };
  theirs = null;
  field.focus();
  void flush();
}

export function showTheirs() {
  showEntry(theirs);
  field.focus();
  say('This is the other text.');
}

field.addEventListener('input', () => {
  showState();
  later(SAVE_AFTER_MS);
});
field.addEventListener('blur', () => flush());
document.addEventListener('svc:status', () => svc.status === 'online' && flush());
document.addEventListener('visibilitychange', () => {
  if (document.hidden) void flush();
});
window.addEventListener('beforeunload', (event) => {
  if (!isDirty()) return;
  void flush();
  event.preventDefault();
});
