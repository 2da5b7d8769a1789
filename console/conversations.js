/** The conversations about an app: its windows and, on the git store, those that change its code. Lists them, and reads and sends alike. */
import { get } from '/svc/_console/view.js';

/** What one request lists. */
const PAGE = 50;
/** Rows of a window, and turns of a conversation, that one request reads. */
const ROWS = 200;
const TURNS = 20;

export class Conversations {
  #app;
  #hasCode;
  /** Key → conversation: `{ key, kind, id, mode, title, updatedAt }`. */
  #known = new Map();
  /** The kinds of which there are earlier ones than those that are known. */
  #unfinished = new Set();

  constructor(app, hasCode) {
    this.#app = app;
    this.#hasCode = hasCode;
  }

  /** Those that are known, the one that was used last first. */
  get all() {
    return [...this.#known.values()].sort((a, b) => b.updatedAt - a.updatedAt);
  }

  /** Whether there are earlier ones to list. */
  get hasMore() {
    return this.#unfinished.size > 0;
  }

  find({ kind, id }) {
    return this.#known.get(`${kind}/${id}`);
  }

  /** The latest ones; those that were listed stay. */
  async read() {
    const isFirst = this.#known.size === 0;
    for (const kind of this.#hasCode ? ['window', 'conversation'] : ['window']) {
      const isWhole = await this.#readPage(kind);
      if (isFirst && !isWhole) this.#unfinished.add(kind);
    }
  }

  /** Earlier ones. */
  async readMore() {
    for (const kind of [...this.#unfinished]) {
      const last = this.all.filter((one) => one.kind === kind).at(-1);
      const isWhole = await this.#readPage(kind, last && `&before=${last.id}`);
      if (isWhole) this.#unfinished.delete(kind);
    }
  }

  forget({ kind, id }) {
    this.#known.delete(`${kind}/${id}`);
  }

  /** Where its turns are. */
  path({ kind, id }) {
    return kind === 'window' ? `/svc/${this.#app}/_chat/windows/${id}` : `${this.#list}/${id}`;
  }

  /** The rows of its latest turns, or those before the row `before`, oldest first; the first of all has `seq` 1. */
  async history(about, before) {
    if (about.kind === 'window')
      return await get(`${this.path(about)}/history?limit=${ROWS}${before ? `&before=${before.seq}` : ''}`);
    const { messages } = await get(
      `${this.path(about)}?limit=${TURNS}${before ? `&before=${encodeURIComponent(before.turnId)}` : ''}`,
    );
    return messages;
  }

  /** The answer to a message, which begins a turn. */
  send({ kind, id }, mode, body) {
    const [path, more] =
      kind === 'window' ? ['_chat', { windowId: id, mode, attachments: undefined }] : ['_turn', { conversationId: id }];
    return fetch(`/svc/${this.#app}/${path}`, { method: 'POST', body: JSON.stringify({ ...body, ...more }) });
  }

  get #list() {
    return `/_svc-conversations/apps/${this.#app}/sessions`;
  }

  /** Resolves with whether there are none after it. */
  async #readPage(kind, before = '') {
    const list = kind === 'window' ? `/svc/${this.#app}/_chat/windows` : this.#list;
    const rows = await get(`${list}?limit=${PAGE}${before}`);
    for (const { windowId, conversationId, mode = 'full', title, updatedAt } of rows) {
      const id = windowId ?? conversationId;
      const key = `${kind}/${id}`;
      this.#known.set(key, { key, kind, id, mode, title, updatedAt });
    }
    return rows.length < PAGE;
  }
}
