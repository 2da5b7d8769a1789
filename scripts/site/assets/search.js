// Finds sections: loaded once somebody opens the search. The build puts the index and the texts in.
import MiniSearch from 'minisearch';
import { INDEX_OPTIONS } from '../search-options.ts';

const index = MiniSearch.loadJSON(INDEX, INDEX_OPTIONS);
const documents = DOCUMENTS;
const options = {
  prefix: true,
  // Short words would be near too many others.
  fuzzy: (term) => (term.length > 4 ? 0.2 : false),
  boost: { heading: 4, page: 2 },
  combineWith: 'AND',
};

/** The sections for what was typed, best first: `{ href, page, heading, text, terms }`, `terms` being the words found. */
globalThis.findSections = (typed, most) =>
  index
    .search(typed, options)
    .slice(0, most)
    .map(({ id, terms }) => ({ ...documents[id], terms }));
