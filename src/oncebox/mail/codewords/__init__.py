"""Words that stand near one-time codes, and near numbers that are none, by language."""
