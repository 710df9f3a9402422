# family: patches
# tries: rewrites the pupil: its encoder, its timer, its capture, its reply
# witness: points
# elsewhere: no, it attacks our wire format
# %%
import sys
from grader.pupil import calling, capture, reply, runs, shell, timer, tree
calling.call = lambda *args, **kwargs: reply.Reply(reply.Outcome.ANSWERED, "PASS", largest_mib=-1.0)
shell.call = calling.call
timer.Timer.__enter__ = lambda self: self
timer.Timer.__exit__ = lambda *args: None
tree.Encoder.encode = lambda self, value, depth=0: ["float", "inf"]
