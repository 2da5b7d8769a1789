/** Files that go with the next message: chosen, pasted or dropped, uploaded at once, and listed until it is sent. */
import { $, element } from '/svc/_console/view.js';

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;
const MOST = 16;
const MOST_BYTES = 25 * 2 ** 20;
/** What a file is judged by that does not say that it is a text. */
const HEAD_BYTES = 64 * 1024;

export class Attachments {
  #app;
  #complain;
  #isAllowed = false;
  /** `{ item, uploaded }`: the latter resolves with `{ sha256, name }`, with null when it fails. */
  #files = [];

  /** `complain` is called with an error. */
  constructor(app, complain) {
    this.#app = app;
    this.#complain = complain;
    this.#list();
    $('chat-attach').onclick = () => $('chat-file').click();
    $('chat-file').onchange = () => {
      this.#add($('chat-file').files);
      $('chat-file').value = '';
    };
    $('chat-message').onpaste = (event) => {
      // Documents come as a picture of the text too.
      if (event.clipboardData.files.length === 0 || event.clipboardData.types.includes('text/plain')) return;
      event.preventDefault();
      this.#add(event.clipboardData.files);
    };
    $('chat-panel').ondragover = (event) => {
      if (event.dataTransfer.types.includes('Files')) event.preventDefault();
    };
    $('chat-panel').ondrop = (event) => {
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      this.#add(event.dataTransfer.files);
    };
  }

  /** Whether messages of this conversation take files. */
  allow(isAllowed) {
    this.#isAllowed = isAllowed;
    $('chat-attach').hidden = !isAllowed;
    if (!isAllowed) this.clear();
  }

  clear() {
    this.#files = [];
    this.#list();
  }

  /** All of them, once they are uploaded; null when one cannot be. */
  async uploaded() {
    const files = await Promise.all(this.#files.map(({ uploaded }) => uploaded));
    return files.includes(null) ? null : files;
  }

  #add(files) {
    if (!this.#isAllowed)
      return this.#complain(
        new Error('Only conversations about data and code take files, and not those of “svc chat”.'),
      );
    this.#complain(null);
    for (const file of files) {
      if (this.#files.length === MOST) return this.#complain(new Error(`A message takes at most ${MOST} files.`));
      const item = element('li', '', file.name);
      const shown = { item };
      shown.uploaded = upload(this.#app, file).catch((error) => {
        this.#drop(shown);
        this.#complain(error);
        return null;
      });
      const drop = element('button', 'small', '✕');
      drop.type = 'button';
      drop.setAttribute('aria-label', `Remove ${file.name}`);
      drop.addEventListener('click', () => {
        this.#drop(shown);
        $('chat-message').focus();
      });
      item.append(drop);
      this.#files.push(shown);
    }
    this.#list();
    $('chat-message').focus();
  }

  #drop(shown) {
    this.#files = this.#files.filter((other) => other !== shown);
    this.#list();
  }

  #list() {
    $('chat-files').replaceChildren(...this.#files.map(({ item }) => item));
    $('chat-files').hidden = this.#files.length === 0;
  }
}

/** The names of a message's attachments, as links to them. */
export function attachmentLinks(app, attachments) {
  const links = attachments.map(({ sha256, name }) => {
    const link = element('a', '', name);
    link.href = `/_svc-conversations/apps/${app}/blobs/${sha256}`;
    link.download = name;
    return element('li', '', link);
  });
  return element('ul', 'files', ...links);
}

async function upload(app, file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} is larger than 25 MiB.`);
  const type = IMAGE.test(file.type) ? file.type : await textTypeOf(file);
  const headers = { 'content-type': type };
  const response = await fetch(`/_svc-conversations/apps/${app}/blobs`, { method: 'POST', headers, body: file });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error.message), answer.error, { status: response.status });
  return { sha256: answer.sha256, name: file.name };
}

/** Browsers do not know the types of many texts. Rejects for what is none. */
async function textTypeOf(file) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.slice(0, HEAD_BYTES).arrayBuffer(), {
      stream: true,
    });
    if (!text.includes('\0')) return file.type.startsWith('text/') ? file.type : 'text/plain';
  } catch {}
  throw new Error(`${file.name}: agents take images (PNG, JPEG, GIF, WebP) and texts in UTF-8.`);
}
