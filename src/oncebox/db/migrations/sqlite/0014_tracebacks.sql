-- Where a try failed: the frames of its error, without the message.
ALTER TABLE oncebox_tries ADD COLUMN traceback TEXT;
