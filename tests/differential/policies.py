"""Policies of the comparisons."""


def allow(**conditions):
    """Allows what meets the conditions, and nothing else."""
    return {"version": 1, "default": "deny", "rules": [{"action": "allow", "host": "*", **conditions}]}


def but(action, **conditions):
    """Denies, or asks about, what meets the conditions, and allows everything else."""
    return {"version": 1, "default": "allow", "rules": [{"action": action, "host": "*", **conditions}]}


def of(action, **conditions):
    return allow(**conditions) if action == "allow" else but(action, **conditions)
