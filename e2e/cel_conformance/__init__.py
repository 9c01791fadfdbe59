"""Random selectors and devices, judged by Kubernetes' own CEL: `python -m e2e.cel_conformance`."""
