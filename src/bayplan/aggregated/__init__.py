"""The aggregated API ``view.bayplan.dev``: answers of the scheduler, as Kubernetes serves APIs."""
