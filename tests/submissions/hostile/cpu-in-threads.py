# family: cpu
# tries: goes on computing in threads after it has answered
# witness: the neighbour, the next submission
# %%
import threading
def burn():
    while True:
        sum(range(10_000))
for _ in range(4):
    threading.Thread(target=burn, daemon=True).start()
