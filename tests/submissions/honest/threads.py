# family: threads
# tries: threads, a pool, locks, queues, a timer; two threads in torch
# %%
import queue, threading, time, torch
from concurrent.futures import ThreadPoolExecutor
results, lock, mailbox = [], threading.Lock(), queue.Queue()
def work(n):
    with lock:
        results.append(n)
    mailbox.put(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
with ThreadPoolExecutor(4) as pool:
    squares = list(pool.map(lambda n: n * n, range(10)))
rang = threading.Event()
threading.Timer(0.01, rang.set).start()
torch.set_num_threads(2)
product = torch.ones(300, 300) @ torch.ones(300, 300)
torch.set_num_threads(1)
def works(x):
    return sorted(results) == list(range(8)) and squares[3] == 9 and rang.wait(5) and float(product[0, 0]) == 300
