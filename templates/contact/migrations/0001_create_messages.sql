CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL,
  message TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('form', 'webhook')),
  -- The sender's own id of the message: a post that is repeated is stored once.
  external_id TEXT UNIQUE,
  received_at INTEGER NOT NULL,
  read_at INTEGER,
  archived_at INTEGER
) STRICT;
CREATE INDEX messages_open ON messages (id) WHERE archived_at IS NULL;
CREATE INDEX messages_archived ON messages (id) WHERE archived_at IS NOT NULL;

-- Posts to the webhook that were no message: when, and why.
CREATE TABLE refused (
  id INTEGER PRIMARY KEY,
  reason TEXT NOT NULL,
  refused_at INTEGER NOT NULL
) STRICT;
