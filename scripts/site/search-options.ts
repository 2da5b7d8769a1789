/** Says how sections are indexed; the build and the page have to agree. */
export const INDEX_OPTIONS = { fields: ['heading', 'page', 'text'] };
