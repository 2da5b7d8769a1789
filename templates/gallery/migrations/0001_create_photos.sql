CREATE TABLE photos (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  file TEXT NOT NULL UNIQUE,
  thumbnail TEXT NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  size INTEGER NOT NULL,
  width INTEGER,
  height INTEGER,
  caption TEXT NOT NULL DEFAULT '',
  added_at INTEGER NOT NULL
);

CREATE INDEX photos_by_thumbnail ON photos (thumbnail);
