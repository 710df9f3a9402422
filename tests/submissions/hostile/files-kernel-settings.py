# family: files
# tries: opens the kernel's settings for writing
# witness: a claim
# %%
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/mm/ksm/run"):
    try:
        open(path, "r+").close()
        print("REACHED", path)
    except OSError:
        pass
