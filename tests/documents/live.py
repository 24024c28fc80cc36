"""Parses messages of the live channel, one a line in a file, with the models that datamodel-code-generator makes of
/asyncapi.json, and prints requests as the models write them, one a line."""

import json
import sys
from pathlib import Path

from datamodel_code_generator.__main__ import main
from pydantic import RootModel, ValidationError
from times import times

OPTIONS = "--input-file-type asyncapi --output-model-type pydantic_v2.BaseModel --formatters builtin"
day = sys.argv[2]

assert main(["--input", "asyncapi.json", "--output", "messages", *OPTIONS.split()]) == 0
import messages  # noqa: E402

for line in Path(sys.argv[1]).read_text().splitlines():
    message = json.loads(line)
    model = getattr(messages, "".join(map(str.capitalize, message["event"].split("_"))))
    parsed = model.model_validate_json(line)
    written = json.loads(parsed.model_dump_json(by_alias=True, exclude_unset=True))
    assert times(written) == times(message), (written, message)
    for runner in getattr(parsed, "runners", []):
        assert isinstance(runner.horse_no, messages.HorseNo), runner
        if isinstance(runner, messages.BoardRunner):
            assert runner.state is None or runner.state in messages.PriceState, runner
    if isinstance(parsed, messages.OddsUpdate | messages.StatusUpdate):
        assert parsed.status in messages.RaceStatus, parsed
for runner in [messages.QuotedRunner, messages.ResultRunner]:
    assert not issubclass(runner, RootModel), f"{runner} is a choice of models"

races = [{"date": day, "venue": "ST", "race_number": 2}]
for request in [
    messages.SubscribeRequest(op="subscribe", id="1", races=races, conflate_ms=0, since=None),
    messages.UnsubscribeRequest(op="unsubscribe", id=2, races=races),
    messages.ResyncRequest(op="resync"),
    messages.PingRequest(op="ping", id="4"),
]:
    print(request.model_dump_json(exclude_none=True))
for model, mistyped in [
    (messages.SubscribeRequest, {"op": "subscribe", "venue": ["ST"]}),
    (messages.SubscribeRequest, {"op": "subscribe", "races": [{"race_number": 1, "track": "ST"}]}),
    (messages.ResyncRequest, {"op": "resync", "races": races}),
]:
    try:
        raise AssertionError(model(**mistyped))
    except ValidationError:
        pass
