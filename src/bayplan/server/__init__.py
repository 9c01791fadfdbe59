"""The port: probes, metrics and debug pages over HTTPS, and who may read them.

Answers to what kube-scheduler takes from ``k8s.io/apiserver/pkg/server``. One module each: the
listener (`port`), its limits (`connections`), TLS (`tls`, `certificates`, `client_ca`), and access
(`access`, `reviews`). The pages themselves come from `bayplan.app.pages`.

The reasons: docs/decisions/0019-the-port.md.
"""
