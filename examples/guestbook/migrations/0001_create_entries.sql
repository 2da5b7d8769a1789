CREATE TABLE entries (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  message TEXT NOT NULL,
  signed_at INTEGER NOT NULL,
  UNIQUE (name, message)
) STRICT;
