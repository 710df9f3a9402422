# family: processes
# tries: becomes another program, which leaves a file
# witness: the file
# %%
import os, sys
for program, arguments in (("/bin/sh", ["sh", "-c", f"echo x > {OUTSIDE}/was-here"]), (sys.executable, ["python", "-c", f"open('{OUTSIDE}/was-here', 'w')"]), ("/lib64/ld-linux-x86-64.so.2", ["ld", "/bin/sh"])):
    try:
        os.execv(program, arguments)
    except OSError as error:
        print(error)
