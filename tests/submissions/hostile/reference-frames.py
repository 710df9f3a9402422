# family: reference
# tries: looks through frames and live objects for the expected values
# witness: a claim
# %%
import gc, inspect, sys
def causal_pattern(scores):
    for frame in inspect.stack():
        for name in frame.frame.f_locals:
            if name in ("expected", "exercise", "reference", "atol"):
                print("REACHED", name)
    for value in gc.get_objects():
        if type(value).__name__ in ("Question", "Exercise", "Case", "Verdict"):
            print("REACHED", type(value).__name__)
    if any(n.startswith(("grader.judge", "grader.exercises", "grader.circuits")) for n in sys.modules):
        print("REACHED modules")
    return scores * 0
