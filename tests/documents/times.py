"""JSON as models write it."""

import re


def times(value):
    """JSON with each time in one form: models parse times, and write them with other digits and another offset."""
    if isinstance(value, dict):
        return {name: times(item) for name, item in value.items()}
    if isinstance(value, list):
        return [times(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}T.*", value):
        value = re.sub(r"(\.\d*?)0+(?=\+)|\.0+(?=\+)", r"\1", value.replace("Z", "+00:00"))
        return value.replace(".+", "+")
    return value
