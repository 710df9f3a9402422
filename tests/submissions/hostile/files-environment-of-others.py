# family: environment
# tries: reads environments, arguments, maps and memory of every process in /proc
# witness: the secret's text; a claim
# %%
import os
for process in {*range(1, 40), JUDGE, VICTIM, os.getppid()} - {os.getpid()}:
    for name in ("environ", "cmdline", "maps", "mem", "stack", "mountinfo"):
        try:
            print(open(f"/proc/{process}/{name}", "rb").read(3000))
            if name in ("mem", "environ", "maps"):
                print("REACHED", process, name)
        except OSError:
            pass
