# family: answers
# tries: numbers, strings and containers of classes of its own that lie about themselves
# witness: points; the verdict
# %%
calls = []
class Lie(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __hash__ = float.__hash__
class Endless(list):
    def __iter__(self):
        while True:
            yield 0.0
class Words(str):
    def __str__(self): return self
    def __len__(self): return 10**12
def causal_pattern(scores):
    calls.append(1)
    return [Lie(1), Endless([1]), Words("x"), {Lie(1): Lie(2)}][len(calls) % 4]
