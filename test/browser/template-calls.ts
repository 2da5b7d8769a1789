/**
 * The calls of each template's tools over HTTP, in this order: with valid inputs, and with inputs that must be refused.
 */
import { createHash } from 'node:crypto';

/** `valid` is called in this order; `invalid` must be refused with INVALID_INPUT. */
export type ToolCall = { tool: string; valid: unknown; invalid: unknown; status?: number };

const DAY_MS = 86_400_000;

/** A file of the app, for tools that take one. */
export const IMAGE = Buffer.from('GIF89a');
const IMAGE_SHA256 = createHash('sha256').update(IMAGE).digest('hex');

/** The day this many days ago, in the time zone of this process. */
export function dayAgo(ago = 0): string {
  const now = new Date();
  return new Date(Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) - ago * DAY_MS).toISOString().slice(0, 10);
}

const MESSAGE = { name: 'Ada', email: 'ada@example.org', message: 'Do you have time on Monday?' };

/** `id` is that of an existing row, `web` the address of a server. */
type Given = { id: number; web: string };

export const CALLS: Record<string, (given: Given) => ToolCall[]> = {
  bookmarks: ({ id, web }) => [
    {
      tool: 'add',
      valid: { url: 'HTTPS://Example.org', tags: ['A'] },
      invalid: { url: 'ftp://example.org' },
      status: 201,
    },
    { tool: 'update', valid: { id, tags: ['b', 'B '], later: true }, invalid: { id, tags: ['a,b'] } },
    { tool: 'fetchTitle', valid: { id }, invalid: { id: 0 } },
    { tool: 'import', valid: { text: 'https://example.net one', tags: ['c'], later: true }, invalid: { text: '' } },
    {
      tool: 'saveChecks',
      valid: { checks: [{ id, url: `${web}/untitled`, status: 200 }], checkedAt: 9 },
      invalid: { checks: [], checkedAt: 9 },
    },
    { tool: 'list', valid: { text: 'b', state: 'later', limit: 5, before: 1000 }, invalid: { state: 'new' } },
    { tool: 'tags', valid: {}, invalid: { limit: 0 } },
    { tool: 'stats', valid: {}, invalid: { more: true } },
    { tool: 'unchecked', valid: { since: 10 }, invalid: {} },
    { tool: 'remove', valid: { id }, invalid: {} },
  ],
  contact: () => [
    { tool: 'send', valid: MESSAGE, invalid: { ...MESSAGE, email: 'nobody' }, status: 201 },
    { tool: 'inbox', valid: { search: 'MONDAY' }, invalid: { show: 'new' } },
    { tool: 'counts', valid: {}, invalid: { all: true } },
    { tool: 'mark', valid: { id: 1, read: true }, invalid: { id: 1 } },
    { tool: 'remove', valid: { id: 1 }, invalid: {} },
    { tool: 'noteRefused', valid: { reason: 'No.', refusedAt: 1 }, invalid: { reason: '', refusedAt: 1 }, status: 201 },
    { tool: 'refused', valid: {}, invalid: { limit: 101 } },
    { tool: 'clearRefused', valid: {}, invalid: { id: 1 } },
  ],
  expenses: () => {
    const day = `${dayAgo().slice(0, 7)}-01`;
    const month = day.slice(0, 7);
    return [
      { tool: 'add', valid: { cents: 5, day, category: 1 }, invalid: { cents: 1.5, day, category: 1 }, status: 201 },
      { tool: 'update', valid: { id: 1, note: 'Sweets' }, invalid: { id: 1 } },
      { tool: 'list', valid: { month, search: 'SWEET' }, invalid: { month: '2026-13' } },
      { tool: 'month', valid: { month }, invalid: {} },
      { tool: 'people', valid: { month }, invalid: {} },
      { tool: 'remove', valid: { id: 1 }, invalid: { id: '1' } },
      { tool: 'addCategory', valid: { name: 'Pets' }, invalid: { name: ' ' }, status: 201 },
      { tool: 'updateCategory', valid: { id: 8, budget: 100 }, invalid: { id: 8, budget: 0 } },
      { tool: 'removeCategory', valid: { id: 8 }, invalid: {} },
      { tool: 'saveSummary', valid: { month, total: 0, count: 0, text: 'Nothing.', madeAt: 1 }, invalid: { month } },
      { tool: 'summaries', valid: {}, invalid: { limit: 0 } },
    ];
  },
  feeds: ({ web }) => {
    const item = { guid: 'g', url: 'javascript:alert(1)', title: 'T', summary: '', publishedAt: null };
    return [
      { tool: 'subscribe', valid: { url: `${web}/rss.xml` }, invalid: { url: '' }, status: 201 },
      { tool: 'feeds', valid: {}, invalid: { id: 1 } },
      { tool: 'rename', valid: { id: 1, title: 'Bread' }, invalid: { id: 1 } },
      { tool: 'refresh', valid: {}, invalid: { id: 0 } },
      { tool: 'store-items', valid: { feed: 1, checkedAt: 5, items: [item, item] }, invalid: { feed: 1 } },
      { tool: 'items', valid: { show: 'all' }, invalid: { show: 'old' } },
      { tool: 'mark', valid: { id: 1, read: true, starred: true }, invalid: { id: 1 } },
      { tool: 'markAllRead', valid: { upTo: 2 }, invalid: { feed: 'all' } },
      { tool: 'unsubscribe', valid: { id: 1 }, invalid: {} },
    ];
  },
  gallery: () => [
    {
      tool: 'add',
      valid: { file: IMAGE_SHA256, name: 'dot.png' },
      invalid: { file: 'dot.png', name: 'x' },
      status: 201,
    },
    { tool: 'update', valid: { id: 1, caption: ' A dot ' }, invalid: { id: 1 } },
    { tool: 'list', valid: { limit: 5, before: 9 }, invalid: { limit: 0 } },
    { tool: 'remove', valid: { id: 1 }, invalid: {} },
  ],
  habits: ({ id }) => [
    { tool: 'add', valid: { name: ' Floss ', goal: 1 }, invalid: { name: '  ' }, status: 201 },
    { tool: 'update', valid: { id, goal: 2, archived: true }, invalid: { id, goal: 8 } },
    { tool: 'check', valid: { id, day: dayAgo(), done: true }, invalid: { id, day: '2026-13-01', done: true } },
    {
      tool: 'board',
      valid: { from: dayAgo(6), to: dayAgo(), today: dayAgo(), archived: true },
      invalid: { from: dayAgo() },
    },
    {
      tool: 'saveRollup',
      valid: { day: dayAgo(1), habits: 2, done: 1, longest: 0, madeAt: 5 },
      invalid: { day: dayAgo(1), habits: -2, done: 1, longest: 0, madeAt: 5 },
    },
    { tool: 'history', valid: { before: dayAgo(), limit: 5 }, invalid: { limit: 367 } },
    { tool: 'remove', valid: { id }, invalid: { id: 'all' } },
  ],
  journal: () => [
    { tool: 'save', valid: { day: '2020-02-29', text: 'Leap day.' }, invalid: { day: '2021-02-30', text: 'x' } },
    { tool: 'entry', valid: { day: '2020-02-29' }, invalid: {} },
    { tool: 'list', valid: { before: dayAgo(), limit: 2 }, invalid: { limit: 0 } },
    { tool: 'calendar', valid: { from: '2020-02-01', to: '2020-02-29' }, invalid: { from: '2020-02-01' } },
    { tool: 'search', valid: { text: 'leap "day' }, invalid: { text: '' } },
    { tool: 'onThisDay', valid: { day: '2024-02-29' }, invalid: { day: 'today' } },
    { tool: 'stats', valid: { today: dayAgo() }, invalid: { today: 7 } },
    { tool: 'review', valid: { day: '2020-03-01', madeAt: 1 }, invalid: { day: '2020-03-01' } },
    { tool: 'reviews', valid: {}, invalid: { limit: 'all' } },
    { tool: 'remove', valid: { day: '2020-02-29' }, invalid: { day: null } },
  ],
  kanban: () => [
    { tool: 'addBoard', valid: { name: 'One' }, invalid: { name: '' }, status: 201 },
    { tool: 'renameBoard', valid: { id: 1, name: 'First' }, invalid: { id: 1 } },
    { tool: 'addColumn', valid: { board: 1, name: 'Later' }, invalid: { board: 0, name: 'x' }, status: 201 },
    { tool: 'renameColumn', valid: { id: 4, name: 'Some day' }, invalid: { id: 4, name: ' ' } },
    { tool: 'moveColumn', valid: { id: 4, before: 1 }, invalid: { id: 4 } },
    {
      tool: 'addCard',
      valid: { column: 1, title: 'A', color: 'red' },
      invalid: { column: 1, title: 'A', color: 'pink' },
      status: 201,
    },
    { tool: 'updateCard', valid: { id: 1, notes: 'n' }, invalid: { id: 1 } },
    { tool: 'moveCard', valid: { id: 1, column: 2, before: null }, invalid: { id: 1, column: 2, before: 'x' } },
    { tool: 'people', valid: {}, invalid: { all: true } },
    { tool: 'boards', valid: {}, invalid: { all: true } },
    { tool: 'board', valid: { id: 1 }, invalid: {} },
    { tool: 'removeCard', valid: { id: 1 }, invalid: {} },
    { tool: 'removeColumn', valid: { id: 3 }, invalid: {} },
    { tool: 'removeBoard', valid: { id: 1 }, invalid: { id: null } },
  ],
  polls: () => [
    {
      tool: 'add',
      valid: { question: ' Lunch? ', options: ['Pizza', 'Noodles'], several: true, named: true },
      invalid: { question: 'Lunch?', options: ['Pizza'] },
      status: 201,
    },
    { tool: 'list', valid: { before: 1000, limit: 5 }, invalid: { limit: 0 } },
    { tool: 'poll', valid: { id: 1 }, invalid: {} },
    // The administrator has no vote.
    { tool: 'vote', valid: { poll: 1, options: [1] }, invalid: { poll: 1, options: ['Pizza'] }, status: 403 },
    { tool: 'close', valid: { id: 1 }, invalid: { id: 0 } },
    { tool: 'remove', valid: { id: 1 }, invalid: {} },
  ],
  todos: ({ id }) => {
    const digest = { day: '2026-11-21', open: 1, done: 2, madeAt: 3 };
    return [
      { tool: 'add', valid: { title: ' Post the letter ' }, invalid: { title: ' ' }, status: 201 },
      { tool: 'update', valid: { id, done: true }, invalid: { id } },
      { tool: 'list', valid: { filter: 'done', limit: 1 }, invalid: { filter: 'some' } },
      { tool: 'stats', valid: {}, invalid: { filter: 'all' } },
      { tool: 'saveDigest', valid: digest, invalid: { ...digest, day: 'today' } },
      { tool: 'digests', valid: {}, invalid: { limit: 0 } },
      { tool: 'remove', valid: { id }, invalid: { id, done: true } },
    ];
  },
};
