// Lays out the templates for use: each with its files, and with those that it shares with others (`templates/_shared/`).
import { cpSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** What each template takes from `templates/_shared/`; what it has to itself is in its `app.css` and `app.js`. */
const SHARED = {
  bookmarks: ['lists'],
  contact: ['forms'],
  expenses: ['forms'],
  feeds: ['forms'],
  gallery: ['forms'],
  habits: ['lists', 'dates'],
  journal: ['lists', 'dates'],
  kanban: ['forms'],
  polls: ['forms'],
};

/** Copies all templates of the tree `root` into the folder `to`. Throws if one has a file of its own in place of a shared one. */
export function layOutTemplates(root, to) {
  const from = join(root, 'templates');
  for (const id of readdirSync(from).filter((name) => name !== '_shared')) {
    const folder = join(to, id);
    cpSync(join(from, id), folder, { recursive: true, filter: (path) => !path.endsWith('.svc-app') });
    for (const set of SHARED[id] ?? []) {
      for (const file of readdirSync(join(from, '_shared', set))) {
        if (existsSync(join(folder, file)))
          throw new Error(`templates/${id}/${file} would hide templates/_shared/${set}/${file}: give it another name.`);
      }
      cpSync(join(from, '_shared', set), folder, { recursive: true });
    }
  }
}
