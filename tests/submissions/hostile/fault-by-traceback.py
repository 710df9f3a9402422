# family: forged faults
# tries: an exception whose words, class and traceback raise when they are read
# witness: the verdict
# %%
class Worst(Exception):
    def __str__(self):
        raise KeyboardInterrupt
    def __getattribute__(self, name):
        if name in ("__traceback__", "args", "__class__"):
            raise SystemExit(name)
        return super().__getattribute__(name)
def causal_pattern(scores):
    raise Worst
