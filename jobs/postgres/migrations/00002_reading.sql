-- Since when and why reading a stream fails; NULL while it does not.
ALTER TABLE {schema}.cursors
  ADD COLUMN failing_since timestamptz,
  ADD COLUMN fail_class    text NOT NULL DEFAULT '',
  ADD COLUMN fail_code     text NOT NULL DEFAULT '',
  ADD COLUMN fail_message  text NOT NULL DEFAULT '';
