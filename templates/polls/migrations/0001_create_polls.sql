-- `maker` is the id of a person, NULL for the administrator. A poll is open until it is closed by hand, or its time has come.
CREATE TABLE polls (
  id INTEGER PRIMARY KEY,
  question TEXT NOT NULL,
  several INTEGER NOT NULL DEFAULT 0,
  named INTEGER NOT NULL DEFAULT 0,
  closes_at INTEGER,
  closed_at INTEGER,
  maker TEXT,
  maker_name TEXT,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE options (
  id INTEGER PRIMARY KEY,
  poll INTEGER NOT NULL REFERENCES polls (id) ON DELETE CASCADE,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX options_by_poll ON options (poll, id);

-- One row for each option that a person chose. The name is there only where votes are named.
CREATE TABLE votes (
  poll INTEGER NOT NULL REFERENCES polls (id) ON DELETE CASCADE,
  person TEXT NOT NULL,
  option INTEGER NOT NULL REFERENCES options (id) ON DELETE CASCADE,
  name TEXT,
  PRIMARY KEY (poll, person, option)
) STRICT, WITHOUT ROWID;
CREATE INDEX votes_by_option ON votes (option);
