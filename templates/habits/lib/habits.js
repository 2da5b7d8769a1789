/** The columns of a habit, as the tools show them. */
export const COLUMNS = 'id, name, goal, color, created_at AS createdAt, archived_at AS archivedAt';

export const noSuchHabit = (id) => ({ status: 404, body: { message: `There is no habit ${id}.` } });
