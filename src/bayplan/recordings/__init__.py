"""Recordings: what happened in a cluster, as compressed JSON lines.

`lines` is the format, `file` writes and reads it, `stripped` leaves out what scheduling does not
read, `recorder` makes lines of what informers send, `audit` of an API server's audit log.
"""
