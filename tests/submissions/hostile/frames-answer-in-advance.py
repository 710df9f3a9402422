# family: frames
# tries: writes replies before anything is asked, for every number it can think of
# witness: points; a fault of the grader's
# elsewhere: no, it attacks our wire format
# %%
import os, torch
from grader.pupil import wire
from grader.pupil.reply import Reply, Outcome
import dataclasses
stream = os.fdopen(os.dup(3), "wb", buffering=0)
for number in range(1, 20):
    reply = Reply(Outcome.ANSWERED, torch.eye(4))
    wire.send(stream, {"id": number, "reply": {f.name: getattr(reply, f.name) for f in dataclasses.fields(reply)}})
