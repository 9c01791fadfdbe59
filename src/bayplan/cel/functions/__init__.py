"""The functions of Kubernetes' CEL environment, a module for each library."""
