/** The columns of an entry, as the tools show them. */
export const COLUMNS = 'day, text, words, created_at AS createdAt, updated_at AS updatedAt';

/** What a day without an entry looks like. */
export const emptyEntry = (day) => ({ day, text: '', words: 0, createdAt: 0, updatedAt: 0 });

export const countWords = (text) => text.match(/\S+/gu)?.length ?? 0;
