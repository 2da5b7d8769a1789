-- Who has done something here: cards can be assigned to them. The name is the one that they had last.
CREATE TABLE people (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The id of a person; NULL where nobody is.
ALTER TABLE cards ADD COLUMN assignee TEXT;
