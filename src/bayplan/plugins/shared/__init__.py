"""What plugins share, and the larger parts of single plugins; no plugin lives here.

Answers per distinct value (`coded_answers`), node selectors and tolerations over columns, resource
scoring, and what storage plugins know of claims, CSI nodes and attached volumes.
"""
