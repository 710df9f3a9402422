# family: limits
# tries: lifts its own limits, and lowers the judge's
# witness: a claim
# %%
import ctypes, resource
for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        print("REACHED: no limit", kind)
    try:
        resource.setrlimit(kind, (soft, resource.RLIM_INFINITY))
        print("REACHED", kind)
    except (OSError, ValueError):
        pass
try:
    resource.prlimit(JUDGE, resource.RLIMIT_NOFILE, (3, 3))
    print("REACHED the judge's")
except (OSError, ValueError):
    pass
