export default async function boards({ db }) {
  return db.all(
    `SELECT boards.id, boards.name, count(cards.id) AS cards
       FROM boards
       LEFT JOIN columns ON columns.board = boards.id
       LEFT JOIN cards ON cards.column_id = columns.id
      GROUP BY boards.id
      ORDER BY boards.id`,
  );
}
