# family: python
# tries: random numbers, dates, the system's name, its processors, getpass, terminal size, locale
# %%
import datetime, getpass, locale, os, platform, random, secrets, shutil, sys, time, uuid, warnings, logging
random.seed(1)
first = random.random()
random.seed(1)
facts = [platform.platform(), os.cpu_count(), sys.version, uuid.uuid4(), secrets.token_hex(4), time.time(),
         datetime.datetime.now().isoformat(), shutil.get_terminal_size(), os.getpid(), os.uname().sysname]
time.sleep(0.001)
warnings.warn("a warning is no error")
logging.getLogger("mine").warning("neither is this")
here = os.listdir(".")
def works(x):
    return random.random() == first and time.perf_counter() > 0 and len(facts) == 10
