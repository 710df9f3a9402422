# family: processes
# tries: starts programs by every way that Python has
# witness: the files they would leave
# control: yes
# %%
import os, subprocess, sys, pty, multiprocessing
attempts = [
    lambda: subprocess.run(["touch", f"{OUTSIDE}/a"]),
    lambda: subprocess.run(f"touch {OUTSIDE}/b", shell=True),
    lambda: os.system(f"touch {OUTSIDE}/c"),
    lambda: os.popen(f"touch {OUTSIDE}/d").read(),
    lambda: os.posix_spawn("/usr/bin/touch", ["touch", f"{OUTSIDE}/e"], {}),
    lambda: subprocess.Popen([sys.executable, "-c", f"open('{OUTSIDE}/f', 'w')"], start_new_session=True),
]
for attempt in attempts:
    try:
        attempt()
    except OSError as error:
        print(error)
