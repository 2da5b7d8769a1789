// `window.svc` is put into the page by the gateway: it calls this app's queries and actions.
const { svc } = window;
const byId = (id) => document.getElementById(id);

/** Is called with the notes at once, and again whenever anybody changes them. */
function show(notes) {
  byId('empty').hidden = notes.length > 0;
  byId('notes').replaceChildren(...notes.map(drawNote));
}

function drawNote(note) {
  const item = document.createElement('li');
  const text = document.createElement('span');
  text.textContent = note.text;
  const when = document.createElement('time');
  when.textContent = new Date(note.createdAt).toLocaleString();
  const remove = document.createElement('button');
  remove.textContent = '✕';
  remove.setAttribute('aria-label', `Remove “${note.text}”`);
  remove.addEventListener('click', () => settle(svc.write({ action: 'remove', input: { id: note.id } })));
  item.append(text, when, remove);
  return item;
}

function problem(error) {
  byId('problem').textContent = error?.message ?? '';
  byId('problem').hidden = error === undefined;
}

/** Shows what went wrong, if anything. */
function settle(work) {
  work.then(() => problem(), problem);
}

byId('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = byId('text').value.trim();
  if (text === '') return;
  event.target.reset();
  const sent = svc.write({ action: 'add', input: { text }, once: true });
  settle(sent);
  // What was not stored nobody should have to type again: it comes back, before what has been typed since.
  sent.catch(() => {
    byId('text').value = [text, byId('text').value].filter(Boolean).join(' ');
  });
});

svc.live('list', {}, show, problem);
