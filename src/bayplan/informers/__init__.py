"""What the cluster looks like, kept up to date: reflectors list and watch, and post what they see.

One thread a kind; each decodes what it receives and hands messages to one inbox. Nothing here
remembers objects: the cache, on the scheduling thread, does.
"""
