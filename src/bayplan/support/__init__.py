"""What has nothing to do with scheduling: logs, files in memory, texts, durations."""
