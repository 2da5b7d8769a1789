-- One entry for each day. `updated_at` only ever grows: who writes names the one that they saw.
CREATE TABLE entries (
  id INTEGER PRIMARY KEY,
  day TEXT NOT NULL UNIQUE CHECK (day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'),
  text TEXT NOT NULL CHECK (text <> ''),
  words INTEGER NOT NULL CHECK (words >= 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX entries_by_month_and_day ON entries (substr(day, 6), day);

-- Finds words by their beginnings, in any case and with or without accents.
CREATE VIRTUAL TABLE entry_words USING fts5 (
  text, content = 'entries', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);
CREATE TRIGGER entries_added AFTER INSERT ON entries BEGIN
  INSERT INTO entry_words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER entries_removed AFTER DELETE ON entries BEGIN
  INSERT INTO entry_words (entry_words, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER entries_changed AFTER UPDATE OF text ON entries BEGIN
  INSERT INTO entry_words (entry_words, rowid, text) VALUES ('delete', old.id, old.text);
  INSERT INTO entry_words (rowid, text) VALUES (new.id, new.text);
END;

-- What the automation "weekly-review" writes: one row for each week, named by its last day.
CREATE TABLE reviews (
  day TEXT PRIMARY KEY,
  days INTEGER NOT NULL CHECK (days BETWEEN 0 AND 7),
  words INTEGER NOT NULL,
  memories INTEGER NOT NULL,
  made_at INTEGER NOT NULL
) STRICT;
