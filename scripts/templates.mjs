// Holds the files equal that templates share: each template is copied as it is, so each has the whole of them.
// usage: node scripts/templates.mjs                          names the copies that differ, and fails when there are any
//        node scripts/templates.mjs templates/kanban/ui.js   copies that file over those of the other templates of its group
import { copyFileSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** What the templates of a group have in common, byte for byte; what a template has to itself is in its `app.css` and `app.js`. */
const GROUPS = [
  { templates: ['contact', 'expenses', 'feeds', 'gallery', 'kanban'], files: ['base.css', 'ui.js'] },
  { templates: ['bookmarks', 'habits', 'journal'], files: ['base.css', 'ui.js'] },
  { templates: ['habits', 'journal'], files: ['dates.js'] },
];
const shared = GROUPS.flatMap(({ templates, files }) =>
  files.map((file) => templates.map((template) => `templates/${template}/${file}`)),
);

const [edited] = process.argv.slice(2);
if (edited !== undefined) {
  const copies = shared.find((paths) => paths.includes(edited));
  if (copies === undefined)
    fail(`${edited} is not shared. Shared are:\n${shared.map((paths) => paths.join(' ')).join('\n')}`);
  for (const copy of copies.filter((path) => path !== edited)) copyFileSync(join(root, edited), join(root, copy));
} else {
  const differing = shared.filter(
    (paths) => new Set(paths.map((path) => readFileSync(join(root, path), 'utf8'))).size > 1,
  );
  if (differing.length > 0)
    fail(
      differing.map((paths) => `These must be equal: ${paths.join(' ')}`).join('\n') +
        '\nCopy the one that is right over the others: node scripts/templates.mjs <path>',
    );
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
