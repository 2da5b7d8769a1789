/** What the handlers of expenses and categories share. */

export const EXPENSE = 'id, day, cents, category, note, payer, created_at AS createdAt';

/** The first and the last day that a month can have, as days compare as text. */
export const daysOf = (month) => ({ first: `${month}-01`, last: `${month}-31` });

export const noExpense = (id) => ({
  status: 404,
  body: { code: 'UNKNOWN_EXPENSE', message: `There is no expense ${id}; it may have been removed.` },
});

export const noCategory = (id) => ({
  status: 404,
  body: { code: 'UNKNOWN_CATEGORY', message: `There is no category ${id}; it may have been removed.` },
});

/** Runs a write of a category's name; answers 409 when another has it. */
export async function withUniqueName(name, write) {
  try {
    return await write();
  } catch (error) {
    if (error.code !== 'SQLITE_CONSTRAINT_UNIQUE') throw error;
    return {
      status: 409,
      body: { code: 'NAME_TAKEN', message: `There is a category “${name}” already.`, path: '/name' },
    };
  }
}
