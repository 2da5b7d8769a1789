/** What the parts of the console share: asking the gateway, making elements, and saying times in words. */

export const $ = (id) => document.getElementById(id);

async function request(path, init) {
  const response = await fetch(path, init);
  const answer = await response.json();
  if (response.status === 401) answer.error.message = 'Your session has ended.';
  if (!response.ok) {
    const { message, code } = answer.error;
    throw Object.assign(new Error(message), { status: response.status, code });
  }
  return answer;
}

/** Rejects with the gateway's message, `status` and `code`. */
export const get = (path) => request(path);

export const post = (path, value = {}) => request(path, { method: 'POST', body: JSON.stringify(value) });

export const put = (path, value) => request(path, { method: 'PUT', body: JSON.stringify(value) });

export const remove = (path) => request(path, { method: 'DELETE' });

export function element(name, className, ...content) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...content);
  return made;
}

/** Before `from` goes away: the focus would be lost with it, and those who use the keyboard would begin at the top again. */
export function handOn(from, to) {
  if (from.contains(document.activeElement)) to?.focus({ preventScroll: true });
}

export function fact(term, value) {
  return element('div', '', element('dt', '', term), element('dd', '', value));
}

/** Every row of a list that is sorted by id and comes in pages of 500. */
export async function getAll(path) {
  const rows = [];
  for (;;) {
    const page = await get(rows.length === 0 ? path : `${path}?after=${encodeURIComponent(rows.at(-1).id)}`);
    rows.push(...page);
    if (page.length < 500) return rows;
  }
}

/** Writes only what changed: a selection in the text stays. */
export function write(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function writeState(target, state) {
  target.dataset.state = state;
  write(target, state.replaceAll('_', ' '));
}

/** Makes these the children, in this order. One that is in its place is not touched: it keeps the focus. */
export function arrange(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  for (const [at, child] of children.entries()) {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  }
}

export const plural = (count, noun) => `${count} ${count === 1 ? noun : noun.replace(/y$/, 'ie').concat('s')}`;

export function duration(ms) {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return `${Math.floor(ms / 1000)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** How long something took: what is short counts here. */
export function took(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

/** The clocks of browser and gateway may differ a little: nothing has happened in the future. */
export const ago = (at) => (Date.now() - at < 1000 ? 'just now' : `${duration(Date.now() - at)} ago`);

export const ahead = (at) => (at - Date.now() < 1000 ? 'now' : `in ${duration(at - Date.now())}`);

export const clock = (at) => new Date(at).toLocaleString();
