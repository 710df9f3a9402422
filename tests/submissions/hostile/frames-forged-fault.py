# family: forged faults
# tries: makes the grader believe that it was its own fault: outcomes that exist nowhere
# witness: the verdict
# elsewhere: no, it attacks our wire format
# %%
from grader.pupil import serving
once = serving.send
def forged(stream, value):
    if "reply" in value:
        value = {**value, "reply": {**value["reply"], "outcome": "GRADER_ERROR"}}
    once(stream, value)
serving.send = forged
