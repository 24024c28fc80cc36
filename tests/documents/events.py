"""Parses every golden event with the models that datamodel-code-generator made of its schema, and prints it as the
model writes it, one a line."""

import importlib
import sys
from pathlib import Path

for path in sorted(Path(sys.argv[1]).glob("*.json")):
    module = importlib.import_module(path.stem.replace(".", "_"))
    event = module.Event.model_validate_json(path.read_text())
    for runner in getattr(event.data, "runners", []):
        assert "Runner" in type(runner).__name__, runner
    print(event.model_dump_json(by_alias=True, exclude_none=True))
