/** One bookmark of the list. */
import { $, create } from './ui.js';

/** The same host always has the same colour. */
const hue = (host) => [...host].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7);

/** `deeds`: what the buttons do, each with the bookmark. */
export function createRow(deeds) {
  const element = $('row').content.firstElementChild.cloneNode(true);
  const find = (selector) => element.querySelector(selector);
  const row = {
    element,
    tile: find('.tile'),
    link: create('a', { target: '_blank', rel: 'noopener noreferrer' }),
    place: find('.place'),
    note: find('.note'),
    tags: find('.tags'),
    later: find('.later'),
    change: find('.change'),
    remove: find('.remove'),
    bookmark: null,
  };
  find('.name').append(row.link);
  for (const deed of ['later', 'change', 'remove'])
    row[deed].addEventListener('click', () => deeds[deed](row.bookmark));
  return row;
}

export function fillRow(row, bookmark, deeds) {
  const { url, host, title, note, later, dead, status, tags, createdAt } = bookmark;
  const name = title || url.replace(/^https?:\/\/(www\.)?/, '').replace(/\/$/, '');
  const kept = new Date(createdAt).toLocaleDateString(undefined, { dateStyle: 'medium' });
  row.bookmark = bookmark;
  row.element.classList.toggle('dead', dead);
  row.tile.textContent = host[0];
  row.tile.style.setProperty('--hue', hue(host));
  row.link.href = url;
  row.link.textContent = name;
  row.place.textContent = `${host} · ${kept}`;
  if (dead) {
    const why = status === 0 ? 'did not answer' : `answered ${status}`;
    row.place.append(create('span', { className: 'gone', textContent: why }));
  }
  row.note.textContent = note;
  row.note.hidden = note === '';
  row.tags.hidden = tags.length === 0;
  row.tags.replaceChildren(
    ...tags.map((tag) => {
      const button = create('button', { className: 'tag', type: 'button', textContent: tag });
      button.addEventListener('click', () => deeds.tag(tag));
      return create('li', {}, button);
    }),
  );
  row.later.setAttribute('aria-pressed', String(later));
  row.later.title = later ? 'To read: mark as read' : 'Read later';
  row.later.setAttribute('aria-label', `Read later: ${name}`);
  row.change.setAttribute('aria-label', `Change: ${name}`);
  row.remove.setAttribute('aria-label', `Remove: ${name}`);
  return row.element;
}
