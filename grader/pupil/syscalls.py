"""The system calls that a stranger's notebook may make, as a filter for the kernel (seccomp).

An allow-list: what isn't named here doesn't exist in the sandbox (ENOSYS, so that libraries fall back
as on an older kernel), also what a later kernel will add. What people do try gets the error that says
what it is: "Operation not permitted". chmod and its like succeed without effect, since copying a file
calls them and no other layer rules over them.

Linux only. Made in the judge's process with libseccomp; the notebook's process only hands the finished
filter to the kernel.
"""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Iterator

import pyseccomp as seccomp
from pyseccomp import EQ, MASKED_EQ, NE, Arg

# Memory, threads of one's own, time, waiting, files that other layers have opened the way to.
FREE = """
    access arch_prctl alarm brk capget chdir clock_getres clock_gettime clock_nanosleep close
    close_range copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait
    epoll_pwait2 epoll_wait eventfd eventfd2 exit exit_group faccessat faccessat2 fadvise64 fallocate
    fchdir fdatasync flock fstat fstat64 fstatfs fsync ftruncate futex futex_requeue futex_wait
    futex_waitv futex_wake get_robust_list getcpu getcwd getdents getdents64 getegid geteuid getgid
    getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid
    getresuid getrlimit getrusage getsid getsockname gettid gettimeofday getuid link linkat lseek lstat
    madvise membarrier mkdir mkdirat mmap mprotect mremap msync munmap nanosleep newfstatat open openat
    pause pipe pipe2 poll ppoll pread64 preadv preadv2 pselect6 pwrite64 pwritev pwritev2 read readahead
    readlink readlinkat readv recvfrom recvmsg rename renameat renameat2 restart_syscall rmdir rseq
    rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler
    sched_rr_get_interval sched_yield select sendfile set_robust_list set_tid_address setitimer shutdown
    sigaltstack stat statfs statx symlink symlinkat time timerfd_create timerfd_gettime timerfd_settime
    times umask uname unlink unlinkat wait4 waitid write writev
""".split()  # noqa: SIM905

# Refused in plain words. Everything else that isn't named gets ENOSYS.
REFUSED = """
    accept accept4 acct add_key bind bpf chown chroot clock_settime connect execve execveat fanotify_init
    fchown fchownat fork inotify_init inotify_init1 io_uring_enter io_uring_register io_uring_setup kcmp
    keyctl kill lchown listen memfd_create memfd_secret mknod mknodat mlock mlock2 mlockall mount
    mount_setattr move_mount mq_open msgget name_to_handle_at open_by_handle_at open_tree perf_event_open
    personality pidfd_getfd pidfd_open pidfd_send_signal pivot_root process_madvise process_vm_readv
    process_vm_writev ptrace quotactl reboot request_key rt_sigqueueinfo rt_tgsigqueueinfo
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler seccomp semget sendmmsg sendmsg
    setdomainname setfsgid setfsuid setgid setgroups sethostname setns setpgid setpriority setregid
    setresgid setresuid setreuid setrlimit setsid setsockopt settimeofday setuid shmget socket swapon
    syslog tgkill tkill truncate umount2 unshare userfaultfd vfork vmsplice
""".split()  # noqa: SIM905

PRETENDED = """
    chmod fchmod fchmodat fchmodat2 fsetxattr fremovexattr futimesat lremovexattr lsetxattr removexattr
    setxattr utime utimensat utimes flistxattr listxattr llistxattr
""".split()  # noqa: SIM905

_CLONE_THREAD = 0x00010000
_FCNTL = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    36,
    37,
    38,
    1030,
    1031,
    1032,
)  # not SETOWN, SETSIG: they send signals
_IOCTL = (
    0x5401,
    0x5413,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
)  # TCGETS, window size, FIONREAD, FIONBIO, close-on-exec
_PRCTL = (3, 15, 16, 21, 23, 39, 0x53564D41)  # reading flags, naming threads and memory
_SOCKET_OPTION = (
    3,
    4,
    7,
    8,
    38,
    39,
)  # SO_TYPE, SO_ERROR, buffers, protocol, domain; no peer's pidfd


def program() -> bytes:
    """The filter in the kernel's own form, for ``prctl(PR_SET_SECCOMP)``.

    Raises OSError where libseccomp can't make it. Another architecture's calls end the process.
    """
    wanted = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    wanted.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for action, names in (
        (seccomp.ALLOW, FREE),
        (seccomp.ERRNO(errno.EPERM), REFUSED),
        (seccomp.ERRNO(0), PRETENDED),
    ):
        for name in names:
            _add(wanted, action, name)
    for name, conditions in _conditional():
        _add(wanted, seccomp.ALLOW, name, *conditions)
    _add(wanted, seccomp.ERRNO(errno.EPERM), "clone", Arg(0, MASKED_EQ, _CLONE_THREAD, 0))
    _add(wanted, seccomp.ERRNO(errno.EPERM), "prlimit64", Arg(2, NE, 0))
    with tempfile.TemporaryFile() as file:
        wanted.export_bpf(file)
        file.seek(0)
        return file.read()


def _conditional() -> Iterator[tuple[str, tuple[Arg, ...]]]:
    yield "clone", (Arg(0, MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD),)  # a thread, not a process
    yield "prlimit64", (Arg(0, EQ, 0), Arg(2, EQ, 0))  # reading one's own limits
    yield "sendto", (Arg(4, EQ, 0),)  # to the other end of a pair, to no address
    stream = (Arg(0, EQ, socket.AF_UNIX), Arg(1, MASKED_EQ, 0xF, socket.SOCK_STREAM))
    yield "socketpair", stream  # asyncio wakes itself with one
    for command in _FCNTL:
        yield "fcntl", (Arg(1, EQ, command),)
    for command in _IOCTL:
        yield "ioctl", (Arg(1, EQ, command),)
    for option in _PRCTL:
        yield "prctl", (Arg(0, EQ, option),)
    for option in _SOCKET_OPTION:
        yield "getsockopt", (Arg(1, EQ, socket.SOL_SOCKET), Arg(2, EQ, option))


def _add(wanted: seccomp.SyscallFilter, action: int, name: str, *conditions: Arg) -> None:
    """Names that this architecture or an older libseccomp doesn't have stay what the rest is: absent."""
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    if number >= 0:
        wanted.add_rule_exactly(action, number, *conditions)
