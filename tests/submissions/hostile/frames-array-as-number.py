# family: forged faults
# tries: arrays where a number is compared, which equal in a way of their own
# witness: the verdict
# elsewhere: no, it attacks our wire format
# %%
import numpy as np, torch
from grader.pupil import serving
once = serving.send
serving.send = lambda stream, value: once(stream, {**value, "id": np.zeros(3)} if "reply" in value else value)
