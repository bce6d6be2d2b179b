-- Since when and why reading a stream fails; NULL while it does not.
ALTER TABLE cursors ADD COLUMN failing_since INTEGER;
ALTER TABLE cursors ADD COLUMN fail_class TEXT NOT NULL DEFAULT '';
ALTER TABLE cursors ADD COLUMN fail_code TEXT NOT NULL DEFAULT '';
ALTER TABLE cursors ADD COLUMN fail_message TEXT NOT NULL DEFAULT '';
