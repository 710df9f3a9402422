# family: reference
# tries: imports the recipes of the models, which hold answers
# witness: a claim
# elsewhere: no, it attacks our modules
# %%
import sys, importlib
sys.meta_path[:] = [f for f in sys.meta_path if "grader" not in type(f).__module__]
for name in [n for n in sys.modules if n.startswith("grader.models.rec") or n.startswith("grader.models.rep")]:
    del sys.modules[name]
for name in ("grader.models.recipes.measure", "grader.models.report", "grader.exercises", "grader.judge.judge", "grader.lab", "grader.classroom.build"):
    try:
        module = importlib.import_module(name)
        if module.__spec__.origin:
            print("REACHED", name)
    except ImportError as error:
        print(error)
