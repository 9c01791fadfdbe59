"""Pods that a node rejects although a scheduler has placed the Pods, and the consequences.

`conflicts` looks these Pods up and reports them, `node_backoff` keeps an owner's Pods off such
nodes for a while, `overcommit` counts the nodes whose Pods request more than there is.
"""
