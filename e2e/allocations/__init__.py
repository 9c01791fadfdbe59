"""Random allocation problems, decided by kube-scheduler's allocator and by ours, and compared."""
