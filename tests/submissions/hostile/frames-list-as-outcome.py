# family: forged faults
# tries: a list where a word is compared, which can't be looked up in a set
# witness: the verdict
# elsewhere: no, it attacks our wire format
# %%
from grader.pupil import serving
once = serving.send
serving.send = lambda stream, value: once(stream, {**value, "reply": {**value["reply"], "outcome": ["answered"]}} if "reply" in value else value)
