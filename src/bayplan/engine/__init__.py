"""The engine: runs the plugins of a profile, and searches nodes for a Pod.

`bayplan.framework` is the contract that plugin authors read; the code here calls the plugins.
Plugins do not import this package.

| module | role |
|---|---|
| `registry`, `contract`, `in_tree` | load plugin classes and check them |
| `profile_plugins`, `runtime` | the plugins of one profile, and the calls to them |
| `search`, `stages`, `pre_filter`, `sampling`, `diagnosis` | Filter and Score over all nodes |
| `row_answers` | cached answers per row |
| `what_if` | Filter over changed tables |
| `capacity` | upper bounds for groups |
| `lifecycle` | the other extension points |
"""
