/** The columns of a todo, as the tools show them. */
export const TODO = 'id, title, created_at AS createdAt, done_at AS doneAt, added_name AS addedBy, done_name AS doneBy';
