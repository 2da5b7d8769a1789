-- When a todo was done says more than that it was: the flag becomes a time, NULL while the todo is open.
ALTER TABLE todos ADD COLUMN done_at INTEGER;
UPDATE todos SET done_at = created_at WHERE done = 1;
ALTER TABLE todos DROP COLUMN done;
CREATE INDEX todos_by_state ON todos (done_at, id);
