"""The inbox: how every other thread reaches the scheduling thread, and in which messages."""
