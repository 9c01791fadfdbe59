"""The binding cycle: waiting in Permit, PreBind, Bind, PostBind, or undoing it all."""
