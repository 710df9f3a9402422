# family: forged faults
# tries: a reply whose fields have names of other types, and a cell's report that is none
# witness: the verdict
# elsewhere: no, it attacks our wire format
# %%
from grader.pupil import serving
once = serving.send
serving.send = lambda stream, value: once(stream, {"ran": {1: 2, (3,): 4}} if "ran" in value else {**value, "reply": {0: 1}})
