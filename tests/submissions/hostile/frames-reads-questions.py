# family: frames
# tries: reads the questions itself in a thread and answers them before the pupil does
# witness: points; a fault of the grader's
# elsewhere: no, it attacks our wire format
# %%
import os, threading
from grader.pupil import wire, serving
def steal():
    stream = os.fdopen(os.dup(3), "rb", buffering=0)
    answers = os.fdopen(os.dup(3), "wb", buffering=0)
    while True:
        question = wire.receive(stream)
        wire.send(answers, {"id": question.get("id"), "reply": {"outcome": "answered", "value": question.get("args")}})
threading.Thread(target=steal, daemon=True).start()
