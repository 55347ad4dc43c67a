-- Whoever waits for an inbox has counted, again and again, how often something was taken back.
CREATE INDEX oncebox_artifacts_released ON oncebox_artifacts (inbox_id) WHERE releases > 0;
