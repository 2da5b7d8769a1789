/** Shows the live page or the draft's beside a conversation, how much the draft changes and its diff, and publishes it. */
import { Minted } from '/svc/_console/minted.js';
import { $, element, get, plural, post, write } from '/svc/_console/view.js';

/** From a change of a file until the diff is read again, milliseconds. */
const SETTLE_MS = 500;

export class DraftView {
  #app;
  #complain;
  #addressOf;
  #session = null;
  #minted = new Minted();
  #timer;

  /** `complain` is called with an error, with null before something is tried. `addressOf` a page is what the frame is sent to. */
  constructor(app, complain, addressOf) {
    this.#app = app;
    this.#complain = complain;
    this.#addressOf = addressOf;
    $('chat-diff').onclick = () => this.#attempt(() => this.#showDiff());
    $('chat-publish').onclick = () => this.#attempt(() => this.#publish());
    $('chat-live').onclick = () => this.showLive();
    $('chat-preview').onclick = () => this.#showPreview();
  }

  /** The session of the draft whose page is shown; null while it is the live one. */
  get shownSession() {
    return $('chat-preview').getAttribute('aria-pressed') === 'true' ? this.#session : null;
  }

  showLive() {
    this.#load(`/svc/${this.#app}/`, 'chat-live');
  }

  /** Another conversation is shown. */
  forget() {
    clearTimeout(this.#timer);
    if (this.#session !== null) this.showLive();
    this.#session = null;
    $('chat-draft').hidden = true;
    $('chat-sides').hidden = true;
  }

  /** The session whose draft the conversation works on. */
  async show(session) {
    if (session === this.#session) return;
    this.#session = session;
    $('chat-sides').hidden = false;
    this.#showPreview();
    await this.refresh();
  }

  /** A file was changed: the preview reloads by itself. */
  changed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.refresh(), SETTLE_MS);
  }

  /** Says how much the draft changes. */
  async refresh() {
    if (this.#session === null) return;
    await this.#attempt(async () => {
      const { files, webhooks } = await this.#diff();
      $('chat-draft').hidden = files.length === 0;
      for (const id of ['chat-diff', 'chat-publish']) $(id).hidden = false;
      showPending(webhooks);
      write($('chat-changes'), `${plural(files.length, 'file')} changed, not published`);
    });
  }

  #diff() {
    return get(`/svc/_sessions/${this.#session}/diff?app=${this.#app}`);
  }

  #showPreview() {
    this.#load(`/svc/_draft/${this.#session}/${this.#app}/`, 'chat-preview');
  }

  #load(path, side) {
    for (const id of ['chat-live', 'chat-preview']) $(id).setAttribute('aria-pressed', String(id === side));
    const address = this.#addressOf(path);
    // Set in place: an address in the frame's history would be one more step back.
    if ($('chat-frame').getAttribute('src') === address) return;
    const fresh = $('chat-frame').cloneNode();
    fresh.setAttribute('src', address);
    $('chat-frame').replaceWith(fresh);
  }

  async #showDiff() {
    const { files } = await this.#diff();
    $('chat-diff-files').replaceChildren(...files.map(fileOf));
    $('chat-diff-dialog').showModal();
  }

  async #publish() {
    $('chat-publish').disabled = true;
    try {
      const { tag, webhooks } = await post(`/svc/_sessions/${this.#session}/publish`, { app: this.#app });
      this.#minted.show(webhooks);
      await this.refresh();
      $('chat-draft').hidden = false;
      for (const id of ['chat-diff', 'chat-publish']) $(id).hidden = true;
      // The disabled button has lost it.
      if (document.activeElement === document.body) $('chat-changes').focus();
      write($('chat-changes'), `${tag} is live`);
      this.showLive();
    } finally {
      $('chat-publish').disabled = false;
    }
  }

  async #attempt(work) {
    this.#complain(null);
    try {
      await work();
    } catch (error) {
      this.#complain(error);
    }
  }
}

function showPending(webhooks) {
  const notes = webhooks.map(({ ownerApp, automationId }) => {
    const text = `Publishing creates the webhook of ${ownerApp}/${automationId}. Its secret is shown then, once.`;
    return element('li', '', text);
  });
  $('chat-pending').replaceChildren(...notes);
  $('chat-pending').hidden = notes.length === 0;
}

function fileOf({ path, status, additions, deletions, patch, binary, truncated }) {
  const count = binary ? 'binary' : `+${additions} −${deletions}`;
  const lines = patch.split('\n').map((line) => {
    const kind = /^(?:\+\+\+|---)/.test(line) ? 'aside' : { '+': 'plus', '-': 'minus', '@': 'aside' }[line[0]];
    return element('span', kind ?? '', `${line}\n`);
  });
  const body = truncated ? element('p', 'aside', 'The patch is too large to be shown.') : element('pre', '', ...lines);
  return element('section', '', element('h3', '', path, ' ', element('span', 'aside', `${status}, ${count}`)), body);
}
