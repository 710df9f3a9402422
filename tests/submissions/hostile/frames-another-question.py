# family: frames
# tries: gives replies the number of another question
# witness: points; a fault of the grader's
# elsewhere: no, it attacks our wire format
# %%
from grader.pupil import serving
once = serving.send
seen = []
def swapped(stream, value):
    if "id" in value:
        seen.append(value["id"])
        value = {**value, "id": seen[0] if len(seen) > 1 else "0" * 16}
    once(stream, value)
serving.send = swapped
