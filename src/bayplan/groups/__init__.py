"""Groups: nodes for all Pods of a group at once, whichever source the group has.

`bayplan.decide.group.deciding_group` is the one entrance. What differs from source to source is a
`bayplan.cache.group_policy.GroupPolicy`; the words of each are in files of their own.
"""
