"""The state of a torch optimizer, after JSON has made texts of its numbers."""

from __future__ import annotations

from typing import Any


def with_number_keys(state: dict[str, Any]) -> dict[str, Any]:
    """The state as `load_state_dict` of an optimizer takes it: it counts parameters, but JSON's keys are texts."""
    return state | {"state": {int(key): value for key, value in state["state"].items()}}
