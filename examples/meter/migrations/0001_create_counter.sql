CREATE TABLE counter (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  total INTEGER NOT NULL
) STRICT;
INSERT INTO counter (id, total) VALUES (1, 0);

-- One row for each second in which something was counted.
CREATE TABLE seconds (
  second INTEGER PRIMARY KEY,
  count INTEGER NOT NULL
) STRICT;
