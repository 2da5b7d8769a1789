-- `goal`: on how many days of a week. A habit that is archived keeps its checks.
CREATE TABLE habits (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL CHECK (trim(name) <> ''),
  goal INTEGER NOT NULL DEFAULT 7 CHECK (goal BETWEEN 1 AND 7),
  color TEXT NOT NULL DEFAULT 'green',
  created_at INTEGER NOT NULL,
  archived_at INTEGER
) STRICT;

CREATE TABLE checks (
  habit_id INTEGER NOT NULL REFERENCES habits (id),
  day TEXT NOT NULL CHECK (day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'),
  PRIMARY KEY (habit_id, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX checks_by_day ON checks (day, habit_id);

-- What the automation "nightly" writes: how many of the habits that there were on a day were done.
CREATE TABLE rollups (
  day TEXT PRIMARY KEY,
  habits INTEGER NOT NULL CHECK (habits >= 0),
  done INTEGER NOT NULL CHECK (done BETWEEN 0 AND habits),
  longest INTEGER NOT NULL CHECK (longest >= 0),
  made_at INTEGER NOT NULL
) STRICT;
