"""Extenders: scheduling decisions that webhooks take part in."""
