"""The page: nodes, Pods and queues as columns, and a server for browsers."""
