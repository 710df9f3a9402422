# family: signals
# tries: makes itself deaf to the timer and never answers
# witness: a verdict all the same
# %%
import signal, time
def causal_pattern(scores):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        try:
            time.sleep(100)
        except BaseException:
            pass
