/** Builds the site into site/: npm run site. */
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BrokenLinks, buildSite } from './build.ts';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const out = join(root, 'site');
try {
  const { pages } = await buildSite(root, out);
  const first = join(relative(process.cwd(), out), 'index.html');
  console.log(`Built ${pages} pages; every link and anchor leads somewhere. Open ${first}.`);
} catch (error) {
  if (!(error instanceof BrokenLinks)) throw error;
  console.error(error.message);
  console.error(`Not built: ${error.problems.length} broken ${error.problems.length === 1 ? 'link' : 'links'}.`);
  process.exitCode = 1;
}
