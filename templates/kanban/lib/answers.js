/** Answers that several actions have in common. */

export const COLUMN = 'id, board, name';
export const CARD = 'id, column_id AS "column", title, notes, color, assignee';

/** 404: it was removed meanwhile, perhaps in another window. */
export const unknown = (what, id) => ({
  status: 404,
  body: { code: `UNKNOWN_${what.toUpperCase()}`, message: `There is no ${what} ${id}; it may have been removed.` },
});

export const full = (message) => ({ status: 409, body: { code: 'FULL', message } });
