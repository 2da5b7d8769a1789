-- What the automation "digest" writes in the evening: one row for each day.
CREATE TABLE digests (
  day TEXT PRIMARY KEY,
  open INTEGER NOT NULL,
  done INTEGER NOT NULL,
  oldest TEXT,
  made_at INTEGER NOT NULL
) STRICT;
