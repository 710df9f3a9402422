# family: files
# tries: makes and opens devices: memory, disks, the kernel's log, the terminal
# witness: a claim
# %%
import os, stat
for name in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/tty", "/dev/ptmx", "/dev/fuse"):
    try:
        os.close(os.open(name, os.O_RDONLY))
        print("REACHED", name)
    except OSError:
        pass
for mode, device in ((stat.S_IFBLK, os.makedev(254, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
    try:
        os.mknod("device", 0o600 | mode, device)
        print("REACHED a device")
    except OSError:
        pass
