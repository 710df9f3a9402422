# family: files
# tries: reads what other notebooks that run at this moment wrote
# witness: the neighbour's text
# %%
import glob, os
for pattern in ("/scratch/**", "/tmp/grader*/**", "../../**", "../**", "/scratch/*/work/*", os.path.dirname(os.path.dirname(os.getcwd())) + "/*/work/*"):
    for path in glob.glob(pattern, recursive=True)[:3000]:
        if os.path.isfile(path):
            try:
                print(open(path, errors="replace").read(500))
            except OSError:
                pass
