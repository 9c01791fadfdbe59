"""Benchmark: bayplan and kube-scheduler side by side, and bayplan's core alone.

`bench.run` puts both on a real control plane, `bench.core` measures cache, queue and framework with
no API server, `bench.soak` looks for leaks and lost Pods, `bench.report` writes the tables of
docs/performance.md from the results. The workloads are data: workloads.yaml.
"""
