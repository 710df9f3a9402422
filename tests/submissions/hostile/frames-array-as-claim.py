# family: forged faults
# tries: arrays and NaN among the claims of a reply
# witness: the verdict
# elsewhere: no, it attacks our wire format
# %%
import numpy as np, torch
from grader.pupil import serving
once = serving.send
serving.send = lambda stream, value: once(stream, {**value, "reply": {**value["reply"], "touched_rng": (np.zeros(3),), "seconds": float("nan"), "mutated": (torch.zeros(2),)}} if "reply" in value else value)
