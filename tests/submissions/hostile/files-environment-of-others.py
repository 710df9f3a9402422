# family: environment
# tries: reads environments, arguments, maps and memory of every process in /proc
# witness: the secret's text; a claim
# %%
import os
for process in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()] + ["self"] if os.access("/proc", os.R_OK) else [JUDGE, os.getppid(), 1, 2]:
    for name in ("environ", "cmdline", "maps", "mem", "stack", "mountinfo"):
        try:
            print(open(f"/proc/{process}/{name}", "rb").read(3000))
            print("REACHED" if name in ("mem", "environ") and process != "self" else "")
        except OSError:
            pass
