# family: reference
# tries: finds the solutions beside the grader or inside the installed package
# witness: a claim
# elsewhere: no, it attacks our files' names
# %%
import glob, os
roots = {REFERENCE.partition("/grader/")[0], os.path.dirname(os.path.dirname(REFERENCE))}
for root in roots:
    for name in ("solutions/02-attention-heads.py", "_shipped/solutions/02-attention-heads.py", "course", "tests", "judge/judge.py"):
        try:
            path = os.path.join(root, name)
            os.listdir(path) if os.path.isdir(path) else open(path).read()
            print("REACHED", path)
        except OSError:
            pass
