# family: exits
# tries: brings the interpreter down by recursion
# witness: the server
# %%
import sys
sys.setrecursionlimit(10**9)
def causal_pattern(scores):
    def down(n):
        return [n].__iter__().__class__ and down(n + 1)
    return down(0)
