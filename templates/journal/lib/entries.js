/** The columns of an entry, as the tools show them. */
export const COLUMNS = 'day, text, words, created_at AS createdAt, updated_at AS updatedAt';

/** The columns of a week's review. */
export const REVIEW = 'day, days, words, memories, made_at AS madeAt';

/** What a day without an entry looks like. */
export const emptyEntry = (day) => ({ day, text: '', words: 0, createdAt: 0, updatedAt: 0 });

export const countWords = (text) => text.match(/\S+/gu)?.length ?? 0;
