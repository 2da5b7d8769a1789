-- Who has done something here: an expense can be theirs. The name is the one that they had last.
CREATE TABLE people (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The id of the person who paid; NULL where nobody is named.
ALTER TABLE expenses ADD COLUMN payer TEXT;
CREATE INDEX expenses_by_payer ON expenses (payer, day) WHERE payer IS NOT NULL;
