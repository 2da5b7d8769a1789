-- `status` is what the automation "dead-links" was answered: an HTTP status, 0 for no answer, NULL before the first time.
CREATE TABLE bookmarks (
  id INTEGER PRIMARY KEY,
  url TEXT NOT NULL UNIQUE CHECK (url LIKE 'http://%' OR url LIKE 'https://%'),
  host TEXT NOT NULL,
  title TEXT NOT NULL DEFAULT '',
  note TEXT NOT NULL DEFAULT '',
  later INTEGER NOT NULL DEFAULT 0 CHECK (later IN (0, 1)),
  status INTEGER,
  dead INTEGER NOT NULL GENERATED ALWAYS AS (status IS NOT NULL AND (status IN (0, 404, 410) OR status >= 500)) STORED,
  created_at INTEGER NOT NULL,
  checked_at INTEGER
) STRICT;
CREATE INDEX bookmarks_to_read ON bookmarks (id) WHERE later = 1;
CREATE INDEX bookmarks_dead ON bookmarks (id) WHERE dead = 1;
CREATE INDEX bookmarks_by_check ON bookmarks (checked_at);

CREATE TABLE tags (
  bookmark_id INTEGER NOT NULL REFERENCES bookmarks (id),
  tag TEXT NOT NULL CHECK (tag = lower(tag) AND tag <> ''),
  PRIMARY KEY (bookmark_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_by_name ON tags (tag, bookmark_id);
