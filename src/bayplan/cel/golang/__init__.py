"""What Go's library reads and prints: conversions and error texts depend on it."""
