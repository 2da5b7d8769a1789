CREATE TABLE feeds (
  id INTEGER PRIMARY KEY,
  url TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  site TEXT,
  added_at INTEGER NOT NULL,
  -- Of the last time that it was fetched: when, what the server wants to be told next time, and what went wrong.
  checked_at INTEGER,
  etag TEXT,
  modified TEXT,
  problem TEXT
) STRICT;

CREATE TABLE items (
  id INTEGER PRIMARY KEY,
  feed INTEGER NOT NULL REFERENCES feeds (id) ON DELETE CASCADE,
  guid TEXT NOT NULL,
  url TEXT,
  title TEXT NOT NULL,
  summary TEXT NOT NULL,
  -- When it was seen first, where the feed does not say.
  published_at INTEGER NOT NULL,
  read_at INTEGER,
  starred INTEGER NOT NULL DEFAULT 0,
  UNIQUE (feed, guid)
) STRICT;
CREATE INDEX items_by_time ON items (published_at, id);
CREATE INDEX items_of_feed ON items (feed, published_at, id);
CREATE INDEX items_unread ON items (feed, published_at, id) WHERE read_at IS NULL;
