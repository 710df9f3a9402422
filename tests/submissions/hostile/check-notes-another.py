# family: shell
# tries: has check note functions by other names, and names that aren't words
# witness: points
# elsewhere: no, it attacks our modules
# %%
from grader import check
def helper(*args):
    return 3.0
for name in ("causal_pattern", "head_output", "../x", "", "x" * 10_000):
    helper.__name__ = name
    check(helper)
class Named:
    __name__ = "causal_pattern"
    def __call__(self, *args):
        return self
check(Named())
