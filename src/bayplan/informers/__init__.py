"""Informers: reflectors list and watch the objects of the cluster and post their changes.

There is one thread per kind. It decodes what it receives and posts messages to the inbox. Objects
are not stored here, but in the cache, on the scheduling thread.
"""
