-- Each person has pages of their own; `person` is their id, and empty for the administrator, who has what was written before.
-- The tables have new names, so that the version before, which knows no people, shows nobody the pages of others after a rollback.
CREATE TABLE pages (
  id INTEGER PRIMARY KEY,
  person TEXT NOT NULL,
  day TEXT NOT NULL CHECK (day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'),
  text TEXT NOT NULL CHECK (text <> ''),
  words INTEGER NOT NULL CHECK (words >= 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (person, day)
) STRICT;
CREATE INDEX pages_by_month_and_day ON pages (person, substr(day, 6), day);

CREATE VIRTUAL TABLE page_words USING fts5 (
  text, content = 'pages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);
CREATE TRIGGER pages_added AFTER INSERT ON pages BEGIN
  INSERT INTO page_words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER pages_removed AFTER DELETE ON pages BEGIN
  INSERT INTO page_words (page_words, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER pages_changed AFTER UPDATE OF text ON pages BEGIN
  INSERT INTO page_words (page_words, rowid, text) VALUES ('delete', old.id, old.text);
  INSERT INTO page_words (rowid, text) VALUES (new.id, new.text);
END;

INSERT INTO pages (id, person, day, text, words, created_at, updated_at)
  SELECT id, '', day, text, words, created_at, updated_at FROM entries;
DROP TABLE entry_words;
DROP TABLE entries;

-- What the automation "weekly-review" writes: one row for each person and week.
CREATE TABLE weeks (
  person TEXT NOT NULL,
  day TEXT NOT NULL,
  days INTEGER NOT NULL CHECK (days BETWEEN 0 AND 7),
  words INTEGER NOT NULL,
  memories INTEGER NOT NULL,
  made_at INTEGER NOT NULL,
  PRIMARY KEY (person, day)
) STRICT;
INSERT INTO weeks (person, day, days, words, memories, made_at)
  SELECT '', day, days, words, memories, made_at FROM reviews;
DROP TABLE reviews;
