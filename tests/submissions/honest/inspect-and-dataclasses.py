# family: python
# tries: looks at its own source, typing, pickle, copy, itertools and the like
# %%
import inspect, dataclasses, pickle, copy, functools, collections, textwrap, traceback
@dataclasses.dataclass(order=True)
class Head:
    layer: int
    index: int = 0
@functools.cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
source = inspect.getsource(fib.__wrapped__)
again = pickle.loads(pickle.dumps(Head(1, 2)))
try:
    1 / 0
except ZeroDivisionError:
    trace = traceback.format_exc()
def works(x):
    return "fib(n - 1)" in source and again == copy.deepcopy(again) and fib(80) > 0 and "1 / 0" in trace
