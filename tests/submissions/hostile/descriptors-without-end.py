# family: descriptors
# tries: opens files until nobody can
# witness: a claim beyond the number allowed
# %%
import os
held = []
try:
    for _ in range(5000):
        held.append(os.open("/dev/null", os.O_RDONLY))
    print("REACHED")
except OSError as error:
    print(len(held), error)
