"""Makes models of the schemas of all events with datamodel-code-generator, parses every golden event with them, and
prints it as the model writes it, one a line."""

import importlib
import sys
from pathlib import Path

from datamodel_code_generator.__main__ import main
from pydantic import BaseModel, RootModel

OPTIONS = (
    "--input-file-type jsonschema --output-model-type pydantic_v2.BaseModel --class-name Event --formatters builtin"
)

for path in sorted(Path(sys.argv[1]).glob("*.json")):
    name = path.stem.replace(".", "_")
    files = ["--input", path.name, "--output", f"{name}.py"]
    assert main([*files, *OPTIONS.split()]) == 0, path
    event = importlib.import_module(name).Event.model_validate_json(path.read_text())
    for runner in getattr(event.data, "runners", []):
        # A model of its own, not a choice of models.
        assert isinstance(runner, BaseModel) and not isinstance(runner, RootModel), type(runner).__mro__
        assert runner.horse_no, runner
    print(event.model_dump_json(by_alias=True, exclude_none=True))
