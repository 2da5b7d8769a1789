-- Amounts are whole cents; budgets too, for a month, NULL where there is none.
CREATE TABLE categories (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE COLLATE NOCASE,
  budget INTEGER CHECK (budget > 0)
) STRICT;

CREATE TABLE expenses (
  id INTEGER PRIMARY KEY,
  day TEXT NOT NULL,
  cents INTEGER NOT NULL CHECK (cents > 0),
  category INTEGER NOT NULL REFERENCES categories (id),
  note TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX expenses_by_day ON expenses (day, id);
CREATE INDEX expenses_by_category ON expenses (category, day);

-- What the automation "monthly" writes: one row for each month.
CREATE TABLE summaries (
  month TEXT PRIMARY KEY,
  total INTEGER NOT NULL,
  count INTEGER NOT NULL,
  text TEXT NOT NULL,
  made_at INTEGER NOT NULL
) STRICT;

INSERT INTO categories (name) VALUES
  ('Groceries'), ('Eating out'), ('Home'), ('Transport'), ('Health'), ('Fun'), ('Other');
