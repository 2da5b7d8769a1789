CREATE TABLE notes (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  event TEXT NOT NULL,
  received_at INTEGER NOT NULL
) STRICT;

-- Rows to read from the start: the scenarios call ids 1 to 1000.
WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 1000)
INSERT INTO notes (id, title, body, updated_at)
SELECT id, 'Note ' || id, 'A line of text that is as long as notes often are, give or take.', 1700000000000 + id FROM ids;
