"""Tests that need no cluster: the word of Kubernetes' own code and of tools, built from Go."""
