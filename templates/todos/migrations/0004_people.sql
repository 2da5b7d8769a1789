-- Who added a todo and who ticked it off: the id of a person, and the name that they had then. NULL for the administrator.
ALTER TABLE todos ADD COLUMN added_by TEXT;
ALTER TABLE todos ADD COLUMN added_name TEXT;
ALTER TABLE todos ADD COLUMN done_by TEXT;
ALTER TABLE todos ADD COLUMN done_name TEXT;
