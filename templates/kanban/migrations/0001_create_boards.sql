-- Positions are whole numbers with room between them; lib/positions.js says how they are given.
CREATE TABLE boards (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE columns (
  id INTEGER PRIMARY KEY,
  board INTEGER NOT NULL REFERENCES boards (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  position INTEGER NOT NULL
) STRICT;
CREATE INDEX columns_by_board ON columns (board, position);

CREATE TABLE cards (
  id INTEGER PRIMARY KEY,
  column_id INTEGER NOT NULL REFERENCES columns (id) ON DELETE CASCADE,
  title TEXT NOT NULL,
  notes TEXT NOT NULL DEFAULT '',
  color TEXT NOT NULL DEFAULT 'none',
  position INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX cards_by_column ON cards (column_id, position);
